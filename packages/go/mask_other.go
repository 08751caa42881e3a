//go:build !linux

package creel

func processMask() cpuSet { return nil }
