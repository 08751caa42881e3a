package creel

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestWorkersIsPositive(t *testing.T) {
	if found := Workers(); found < 1 {
		t.Errorf("got %d workers", found)
	}
}

// The test of crates/abi sets these variables: the C library's number for this process, and a file
// with its number for each captured machine.
func TestWorkersAgreesWithTheCLibrary(t *testing.T) {
	expected, err := strconv.Atoi(os.Getenv("CREEL_EXPECTED"))
	if err != nil {
		t.Skip("CREEL_EXPECTED is not set to a number")
	}
	if found := Workers(); found != expected {
		t.Errorf("got %d workers, expected %d", found, expected)
	}
}

func TestCapturedMachinesAgreeWithTheCLibrary(t *testing.T) {
	table, err := os.ReadFile(os.Getenv("CREEL_EXPECTED_TABLE"))
	if err != nil {
		t.Skip("CREEL_EXPECTED_TABLE names no file")
	}
	for _, line := range strings.Split(strings.TrimSpace(string(table)), "\n") {
		fields := strings.Split(line, "\t")
		root, mask := fields[0], fields[1]
		expected, _ := strconv.Atoi(fields[2])
		if found := WorkersIn(root, mask); found != expected {
			t.Errorf("%s, mask %q: got %d workers, expected %d", root, mask, found, expected)
		}
	}
}

func TestLists(t *testing.T) {
	for text, count := range map[string]int{"": 0, "0": 1, "0-3,8": 5, "0-9:2/4": 6} {
		if set, ok := parseList(text); !ok || len(set) != count {
			t.Errorf("%q has %d CPUs, expected %d", text, len(set), count)
		}
	}
	for _, text := range []string{"0-", "-3", "3-1", "a", "0,,1", "0-3:2", "0-3:0/2", "1.5", "99999"} {
		if _, ok := parseList(text); ok {
			t.Errorf("%q must be rejected", text)
		}
	}
}

func TestAnOuterQuotaIsRespected(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("sys/devices/system/cpu/online", "0-7\n")
	write("proc/self/cgroup", "0::/outer/inner\n")
	write("proc/self/mountinfo", "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
	write("sys/fs/cgroup/outer/cpu.max", "250000 100000\n")
	write("sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n")
	if found := WorkersIn(root, "0-7"); found != 2 {
		t.Errorf("got %d workers, expected 2", found)
	}
}
