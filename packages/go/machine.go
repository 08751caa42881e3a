package creel

import (
	"io"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
)

const cpuFolder = "sys/devices/system/cpu"

// The largest file that we read. /proc/cpuinfo has about 1.5 KB for each CPU.
const fileMax = 1 << 25

// A tree has the files below a folder: those of the running system, or a copy of them.
type tree struct{ root string }

func (t tree) path(name string) string { return filepath.Join(t.root, name) }

// text returns the text of a file without whitespace and NULs around it. A file that is missing or
// cannot be read has none.
func (t tree) text(name string) (string, bool) {
	// Opening a FIFO without a writer would block. With this flag it reads as empty.
	file, err := os.OpenFile(t.path(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", false
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, fileMax+1))
	if err != nil || len(data) > fileMax {
		return "", false
	}
	return strings.Trim(string(data), "\x00 \t\r\n\v\f"), true
}

func (t tree) isFolder(name string) bool {
	info, err := os.Stat(t.path(name))
	return err == nil && info.IsDir()
}

func (t tree) list(name string) cpuSet {
	text, ok := t.text(name)
	if !ok {
		return nil
	}
	set, ok := parseList(text)
	if !ok {
		return nil
	}
	return set
}

// maskOrList reads a CPU mask, or the list next to it if there is no usable mask.
func (t tree) maskOrList(name string) (cpuSet, bool) {
	if text, ok := t.text(name); ok && text != "" {
		if set, ok := parseMask(text); ok {
			return set, true
		}
	}
	text, ok := t.text(name + "_list")
	if !ok {
		return nil, false
	}
	return parseList(text)
}

func (t tree) number(name string) (int64, bool) {
	text, ok := t.text(name)
	if !ok {
		return 0, false
	}
	number, err := strconv.ParseInt(text, 10, 64)
	return number, err == nil
}

// numbered returns the numbers N for which a folder has an entry prefixN, in ascending order.
func (t tree) numbered(folder, prefix string) []int {
	entries, _ := os.ReadDir(t.path(folder))
	var numbers []int
	for _, entry := range entries {
		digits := strings.TrimPrefix(entry.Name(), prefix)
		if digits == entry.Name() || digits == "" {
			continue
		}
		if number, ok := index(digits); ok {
			numbers = append(numbers, number)
		}
	}
	sort.Ints(numbers)
	return numbers
}

// readOnline returns the online CPUs: those of the kernel's list, or the folders that are not
// offline, or those of /proc/cpuinfo, or those of /proc/stat.
func readOnline(files tree) cpuSet {
	if list := files.list(cpuFolder + "/online"); len(list) > 0 {
		return list
	}
	online := cpuSet{}
	for _, cpu := range files.numbered(cpuFolder, "cpu") {
		state, ok := files.number(cpuFolder + "/cpu" + strconv.Itoa(cpu) + "/online")
		if !ok || state != 0 {
			online.add(cpu)
		}
	}
	if len(online) > 0 {
		return online
	}
	for _, processor := range readCpuinfo(files) {
		online.add(processor.cpu)
	}
	if len(online) > 0 {
		return online
	}
	stat, _ := files.text("proc/stat")
	for _, line := range strings.Split(stat, "\n") {
		name, _, _ := strings.Cut(line, " ")
		if digits := strings.TrimPrefix(name, "cpu"); digits != name && digits != "" {
			if cpu, ok := index(digits); ok {
				online.add(cpu)
			}
		}
	}
	return online
}

// readSiblings returns the hardware threads of each core. The sets do not overlap.
func readSiblings(files tree, online cpuSet) []cpuSet {
	covered := cpuSet{}
	var cores []cpuSet
	for _, cpu := range files.numbered(cpuFolder, "cpu") {
		if covered.has(cpu) {
			continue
		}
		folder := cpuFolder + "/cpu" + strconv.Itoa(cpu) + "/topology/"
		set, ok := files.maskOrList(folder + "core_cpus")
		if !ok {
			set, ok = files.maskOrList(folder + "thread_siblings")
		}
		if !ok {
			continue
		}
		core := cpuSet{}
		for sibling := range set {
			if !covered.has(sibling) {
				core.add(sibling)
				covered.add(sibling)
			}
		}
		if len(core) > 0 {
			cores = append(cores, core)
		}
	}
	if len(cores) > 0 {
		return cores
	}
	return coresOfCpuinfo(readCpuinfo(files), online)
}

// countCores returns the number of cores that have an allowed CPU. A CPU without known siblings is a
// core of its own.
func countCores(cores []cpuSet, allowed cpuSet) int {
	count, known := 0, cpuSet{}
	for _, core := range cores {
		if core.intersects(allowed) {
			count++
		}
		for cpu := range core {
			known.add(cpu)
		}
	}
	for cpu := range allowed {
		if !known.has(cpu) {
			count++
		}
	}
	return count
}

// A processor has the fields of one CPU in /proc/cpuinfo. Missing numbers are -1.
type processor struct{ cpu, pack, core, siblings, cores int }

func readCpuinfo(files tree) []processor {
	text, _ := files.text("proc/cpuinfo")
	var processors []processor
	for _, line := range strings.Split(text, "\n") {
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		key = strings.TrimSpace(key)
		number, ok := index(strings.TrimSpace(value))
		if !ok || strings.TrimSpace(value) == "" {
			number = -1
		}
		if rest := strings.TrimPrefix(key, "processor"); rest != key || key == "processor" {
			// On s390, the number is part of the key: `processor 0: version = 00`.
			if rest = strings.TrimSpace(rest); rest != "" {
				if number, ok = index(rest); !ok {
					number = -1
				}
			}
			if number >= 0 {
				processors = append(processors, processor{number, -1, -1, -1, -1})
			}
			continue
		}
		if len(processors) == 0 {
			continue
		}
		last := &processors[len(processors)-1]
		switch key {
		case "physical id":
			last.pack = number
		case "core id":
			last.core = number
		case "siblings":
			last.siblings = number
		case "cpu cores":
			last.cores = number
		}
	}
	return processors
}

// coresOfCpuinfo groups CPUs by package and core, or returns nothing unless every online CPU has
// both. The number of a core is unique only within its package, and is used only if the package has
// more siblings than cores.
func coresOfCpuinfo(processors []processor, online cpuSet) []cpuSet {
	groups := map[[2]int]cpuSet{}
	reported := cpuSet{}
	for _, p := range processors {
		within := p.core
		if p.siblings >= 0 && p.siblings == p.cores {
			within = p.cpu
		}
		if !online.has(p.cpu) || reported.has(p.cpu) || p.pack < 0 || within < 0 {
			continue
		}
		reported.add(p.cpu)
		key := [2]int{p.pack, within}
		if groups[key] == nil {
			groups[key] = cpuSet{}
		}
		groups[key].add(p.cpu)
	}
	if len(reported) != len(online) {
		return nil
	}
	var cores []cpuSet
	for _, core := range groups {
		cores = append(cores, core)
	}
	return cores
}

// maskOfStatus returns the affinity mask in /proc/self/status, or nil.
func maskOfStatus(files tree) cpuSet {
	status, _ := files.text("proc/self/status")
	for _, line := range strings.Split(status, "\n") {
		if list := strings.TrimPrefix(line, "Cpus_allowed_list:"); list != line {
			if set, ok := parseList(list); ok && len(set) > 0 {
				return set
			}
		}
	}
	return nil
}
