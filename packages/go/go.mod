module github.com/creel-rs/creel/packages/go

go 1.19
