package saltest

import "testing"

// TestAHostOnDiskIsNotInMemory: what processes write there would count against the memory that they may take.
func TestAHostOnDiskIsNotInMemory(t *testing.T) {
	const inMemory = 0x01021994
	if dir := (OnDisk{}).New(t); fsType(dir) == inMemory {
		t.Errorf("%s is in memory", dir)
	}
	t.Setenv("TMPDIR", "/dev/shm")
	if dir := (OnDisk{}).New(t); fsType(dir) == inMemory {
		t.Errorf("%s is in memory", dir)
	}
}
