// Sums up 400,000 numbers in each round, with as many goroutines as Go counts CPUs.
// The argument is a factor of the number of rounds.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
)

func main() {
	const items = 400_000
	rounds := 1000
	if len(os.Args) > 1 {
		times, _ := strconv.Atoi(os.Args[1])
		rounds *= times
	}
	workers := runtime.GOMAXPROCS(0)
	sums := make([]float64, workers*16)
	for round := 0; round < rounds; round++ {
		var all sync.WaitGroup
		for worker := 0; worker < workers; worker++ {
			all.Add(1)
			go func() {
				defer all.Done()
				sum := 0.0
				for i := worker; i < items; i += workers {
					sum += float64(i ^ round)
				}
				sums[worker*16] += sum
			}()
		}
		all.Wait()
	}
	fmt.Println(workers, sums[0])
}
