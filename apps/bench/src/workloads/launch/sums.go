// Sums in rounds: in each, as many goroutines as Go counts CPUs share 400,000 numbers.
package main

import (
	"fmt"
	"runtime"
	"sync"
)

func main() {
	const rounds, items = 1000, 400_000
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
