// Package creel returns how many workers this process should start. It respects the affinity mask,
// and the cpusets and quotas of all control groups. The hyper-threads of a core count once. Note
// that Go itself reads the quota of control groups only since version 1.25, and rounds it up.
//
// The package is written in Go only, so it needs neither cgo nor a library. It follows the same
// rules as Creel's C library. A test compares the two on captured machines.
package creel

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Workers returns the number of usable cores, with quotas rounded down. It is at least 1.
//
// It never exceeds the number of `creel run --jobs`, which is in the variable CREEL_JOBS. It never
// fails, because a limit that cannot be read is ignored. On systems other than Linux, it is
// runtime.NumCPU.
//
// The call reads about forty files, so keep its result.
func Workers() int {
	count := runtime.NumCPU()
	if runtime.GOOS == "linux" {
		count = workersIn("/", processMask())
	}
	given, err := strconv.Atoi(strings.TrimSpace(os.Getenv("CREEL_JOBS")))
	if err == nil && given > 0 && given < count {
		return given
	}
	return count
}

// SetMaxProcs sets GOMAXPROCS to Workers, unless the environment variable GOMAXPROCS is set. It
// returns the value that holds afterwards.
func SetMaxProcs() int {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(Workers())
	}
	return runtime.GOMAXPROCS(0)
}

// WorkersIn returns the number for a machine whose /proc and /sys are below the folder root. It is
// meant for tests. The mask is a Linux CPU list, or empty for that of root/proc/self/status.
//
// As in sched_setaffinity, CPUs that do not exist do not count. WorkersIn returns 0 if the mask is
// not a CPU list, if none of its CPUs exists, or if root has neither a folder proc nor a folder sys.
func WorkersIn(root, mask string) int {
	files := tree{root}
	if !files.isFolder("proc") && !files.isFolder("sys") {
		return 0
	}
	if mask == "" {
		return workersIn(root, nil)
	}
	set, ok := parseList(mask)
	if !ok {
		return 0
	}
	// If no file lists a CPU, we know only those of the mask.
	if online := onlineWith(files, maskOfStatus(files), false); len(online) > 0 {
		set = set.intersection(online)
	}
	if len(set) == 0 {
		return 0
	}
	return workersIn(root, set)
}

// onlineWith returns the online CPUs of the files, and those of the affinity mask if it contradicts
// the files, because the kernel enforces it. The mask is nil if it is unknown.
func onlineWith(files tree, mask cpuSet, isLive bool) cpuSet {
	online := readOnline(files)
	if mask != nil && (isLive || !mask.intersects(online)) {
		return online.union(mask)
	}
	return online
}

func workersIn(root string, live cpuSet) int {
	files := tree{root}
	limits := readLimits(files)
	mask := live
	if mask == nil {
		mask = maskOfStatus(files)
	}
	online := onlineWith(files, mask, live != nil)
	if len(online) == 0 {
		return 1
	}
	allowed := online
	if mask != nil {
		allowed = online.intersection(mask)
	} else {
		for i := len(limits.cpusets) - 1; i >= 0; i-- {
			if narrowed := allowed.intersection(limits.cpusets[i]); len(narrowed) > 0 {
				allowed = narrowed
			}
		}
	}
	workers := countCores(readSiblings(files, online), allowed)
	for _, limit := range limits.counts {
		if limit < workers {
			workers = limit
		}
	}
	if workers < 1 {
		return 1
	}
	return workers
}
