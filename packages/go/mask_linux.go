package creel

import (
	"math/bits"
	"os"
	"syscall"
	"unsafe"
)

// processMask returns the affinity mask of the main thread, or nil. A goroutine moves between
// threads, so the mask of the calling thread says nothing about the process.
func processMask() cpuSet {
	const wordBits = bits.UintSize
	words := make([]uint, (indexMax+1)/wordBits)
	size := uintptr(len(words) * wordBits / 8)
	// The kernel writes at most size bytes.
	_, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_GETAFFINITY, uintptr(os.Getpid()), size,
		uintptr(unsafe.Pointer(&words[0])))
	if errno != 0 {
		return nil
	}
	mask := cpuSet{}
	for at, word := range words {
		for ; word != 0; word &= word - 1 {
			mask.add(at*wordBits + bits.TrailingZeros(word))
		}
	}
	if len(mask) == 0 {
		return nil
	}
	return mask
}
