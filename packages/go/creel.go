// Package creel returns how many workers this process should start. It respects the affinity mask,
// and the cpusets and quotas of all control groups. The hyper-threads of a core count once. Note that
// Go itself reads only the quota of the process's own control group.
package creel

// #cgo pkg-config: creel
// #include <creel.h>
import "C"

// Workers returns the number of usable cores, with quotas rounded down. It is at least 1.
func Workers() int { return int(C.creel_workers()) }
