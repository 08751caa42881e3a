package creel

import (
	"os"
	"strconv"
	"testing"
)

func TestWorkers(t *testing.T) {
	expected, err := strconv.Atoi(os.Getenv("CREEL_EXPECTED"))
	if err != nil {
		t.Skip("CREEL_EXPECTED does not say how many")
	}
	if found := Workers(); found != expected {
		t.Errorf("%d workers, not %d", found, expected)
	}
}
