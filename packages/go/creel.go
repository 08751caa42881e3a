// Package creel tells how many workers this process should have: mask, cpusets and quotas of all
// cgroups, hyper-threads counted once. Go itself sees its own cgroup's quota only.
package creel

// #cgo pkg-config: creel
// #include <creel.h>
import "C"

// Workers gives the usable cores, fractions of a quota cut off; at least 1.
func Workers() int { return int(C.creel_workers()) }
