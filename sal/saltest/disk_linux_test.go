package saltest

import "testing"

// Files in memory would count towards the memory limit of the processes that write them.
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
