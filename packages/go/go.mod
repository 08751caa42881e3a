module creel.example/creel

go 1.19
