// Chains, hops, spawn-join and ping-pong. Prints the ns per unit of the case, the number of passes,
// and the memory in KiB before the first pass and at its peak.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

const batch = 1000

func chain(length int) {
	last := make(chan int)
	left := last
	for i := 0; i < length; i++ {
		right := make(chan int)
		go func(left, right chan int) { left <- <-right + 1 }(left, right)
		left = right
	}
	left <- 0
	if <-last != length {
		panic("the chain is broken")
	}
}

func relay(length, laps int) {
	last := make(chan int, 1)
	left := last
	for i := 0; i < length; i++ {
		right := make(chan int, 1)
		go func(left, right chan int) {
			for n := range right {
				left <- n + 1
			}
			close(left)
		}(left, right)
		left = right
	}
	for lap := 0; lap < laps; lap++ {
		left <- 0
		<-last
	}
	close(left)
}

func spawnJoin() {
	for i := 0; i < batch; i++ {
		done := make(chan int)
		go func() { done <- i }()
		<-done
	}
}

func pingPong() {
	there, back := make(chan int, 1), make(chan int, 1)
	go func() {
		for n := range there {
			back <- n
		}
	}()
	for i := 0; i < batch; i++ {
		there <- i
		<-back
	}
	close(there)
}

func kib(name string) string {
	text, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(text), "\n") {
		if rest, found := strings.CutPrefix(line, name); found {
			return strings.TrimSpace(strings.TrimSuffix(rest, "kB"))
		}
	}
	return "0"
}

func main() {
	job := os.Args[1]
	size, _ := strconv.Atoi(os.Args[2])
	workers, _ := strconv.Atoi(os.Args[3])
	warm, _ := time.ParseDuration(os.Args[4] + "us")
	sample, _ := time.ParseDuration(os.Args[5] + "us")
	runtime.GOMAXPROCS(workers)
	call, units := func() { chain(size) }, 1
	switch job {
	case "hop":
		laps := 10000 / size
		call, units = func() { relay(size, laps) }, size*laps
	case "spawn-join":
		call, units = spawnJoin, batch
	case "ping-pong":
		call, units = pingPong, batch
	}
	calls, before := 0, kib("VmRSS:")
	for begin := time.Now(); calls == 0 || time.Since(begin) < warm; calls++ {
		call()
	}
	warmed := calls
	calls = 0
	begin := time.Now()
	for calls == 0 || time.Since(begin) < sample {
		call()
		calls++
	}
	ns := float64(time.Since(begin).Nanoseconds()) / float64(calls*units)
	fmt.Println(ns, warmed+calls, before, kib("VmHWM:"))
}
