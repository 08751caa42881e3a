package creel

import (
	"strconv"
	"strings"
)

// The highest index of a CPU that we accept. It bounds the memory that a malformed file can take.
const indexMax = 16383

// A cpuSet contains the indices of CPUs.
type cpuSet map[int]struct{}

func (s cpuSet) add(cpu int) { s[cpu] = struct{}{} }

func (s cpuSet) has(cpu int) bool {
	_, ok := s[cpu]
	return ok
}

func (s cpuSet) intersects(other cpuSet) bool {
	for cpu := range s {
		if other.has(cpu) {
			return true
		}
	}
	return false
}

func (s cpuSet) intersection(other cpuSet) cpuSet {
	both := cpuSet{}
	for cpu := range s {
		if other.has(cpu) {
			both.add(cpu)
		}
	}
	return both
}

func (s cpuSet) union(other cpuSet) cpuSet {
	all := cpuSet{}
	for cpu := range s {
		all.add(cpu)
	}
	for cpu := range other {
		all.add(cpu)
	}
	return all
}

// parseList parses a CPU list, for example 0-3,8 or 0-9:2/4. An empty text is an empty set.
func parseList(text string) (cpuSet, bool) {
	set := cpuSet{}
	text = strings.TrimSpace(text)
	if text == "" {
		return set, true
	}
	for _, item := range strings.Split(text, ",") {
		if !set.addItem(strings.TrimSpace(item)) {
			return nil, false
		}
	}
	return set, true
}

// addItem adds a CPU, a range, or a range of which some of each group are used.
func (s cpuSet) addItem(item string) bool {
	bounds, stride, hasStride := strings.Cut(item, ":")
	low, high, isRange := strings.Cut(bounds, "-")
	if !isRange {
		high = low
	}
	first, ok1 := index(low)
	last, ok2 := index(high)
	used, group := 1, 1
	if hasStride {
		usedText, groupText, ok := strings.Cut(stride, "/")
		var ok3, ok4 bool
		used, ok3 = index(usedText)
		group, ok4 = index(groupText)
		if !ok || !ok3 || !ok4 {
			return false
		}
	}
	if !ok1 || !ok2 || first > last || used == 0 || used > group {
		return false
	}
	for cpu := first; cpu <= last; cpu++ {
		if (cpu-first)%group < used {
			s.add(cpu)
		}
	}
	return true
}

// index parses an index, which consists of digits only.
func index(text string) (int, bool) {
	for _, digit := range []byte(text) {
		if digit < '0' || digit > '9' {
			return 0, false
		}
	}
	number, err := strconv.Atoi(text)
	return number, err == nil && number <= indexMax
}

// parseMask parses a CPU mask, for example 0000ffff or ff,00000000. Each comma ends a word of 32
// bits.
func parseMask(text string) (cpuSet, bool) {
	set, base := cpuSet{}, 0
	words := strings.Split(strings.TrimPrefix(strings.TrimSpace(text), "0x"), ",")
	for i := len(words) - 1; i >= 0; i-- {
		word := words[i]
		if word == "" {
			return nil, false
		}
		for at := range word {
			nibble, err := strconv.ParseUint(word[len(word)-1-at:len(word)-at], 16, 8)
			if err != nil {
				return nil, false
			}
			for bit := 0; bit < 4; bit++ {
				cpu := base + at*4 + bit
				if nibble>>bit&1 == 1 {
					if cpu > indexMax {
						return nil, false
					}
					set.add(cpu)
				}
			}
		}
		if bits := len(word) * 4; bits > 32 {
			base += bits
		} else {
			base += 32
		}
	}
	return set, true
}
