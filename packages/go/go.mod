module creel

go 1.19
