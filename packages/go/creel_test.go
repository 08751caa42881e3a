package creel

import (
	"os"
	"strconv"
	"testing"
)

func TestWorkers(t *testing.T) {
	expected, err := strconv.Atoi(os.Getenv("CREEL_EXPECTED"))
	if err != nil {
		t.Skip("CREEL_EXPECTED is not set to a number")
	}
	if found := Workers(); found != expected {
		t.Errorf("got %d workers, expected %d", found, expected)
	}
}
