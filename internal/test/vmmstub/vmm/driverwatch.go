package vmm

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// lookTime is the poll interval for drivers.
const lookTime = 100 * time.Millisecond

// driverWatch finds the devices whose driver the guest has loaded. QEMU has this state, but sends no event for it.
type driverWatch struct {
	qmp *qmp

	mu      sync.Mutex
	waiting map[string]string // IDs of devices without a loaded driver, by QEMU's names
}

// await adds a device.
func (w *driverWatch) await(d *device) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if d.disk != nil || d.net != nil {
		w.waiting[d.name()] = d.id
	}
}

// loaded removes and returns the IDs of devices with a loaded driver.
func (w *driverWatch) loaded() (ids []string) {
	w.mu.Lock()
	awaited := maps.Clone(w.waiting)
	w.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(awaited)) {
		if !w.driven(name) {
			continue
		}
		w.mu.Lock()
		delete(w.waiting, name)
		w.mu.Unlock()
		ids = append(ids, awaited[name])
	}
	return ids
}

// driven reports whether the guest's driver has set up a device.
func (w *driverWatch) driven(name string) bool {
	var answer struct {
		Status struct {
			Statuses []string `json:"statuses"`
		} `json:"status"`
	}
	if w.qmp.ask("x-query-virtio-status", map[string]any{"path": "/machine/peripheral/" + name + "/virtio-backend"},
		&answer) != nil {
		return false
	}
	return slices.ContainsFunc(answer.Status.Statuses,
		func(s string) bool { return strings.HasPrefix(s, "VIRTIO_CONFIG_S_DRIVER_OK") })
}
