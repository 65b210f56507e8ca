package bound

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"writ"
	"writ/internal/clip"
	"writ/internal/opening"
	"writ/sal/catalog"
	"writ/scripts"
)

const (
	// maxSlots limits the slots of a node.
	maxSlots = 4096
	// maxActive limits the active jobs in a beat: twice the slots of a node, plus the same number of jobs with stuck
	// drivers.
	maxActive = 4 * maxSlots
	// maxStuck limits the stuck jobs of a node.
	maxStuck = 256
	// maxProgress limits the progress texts in a beat.
	maxProgress = 256
	// maxDrivers limits the drivers of a node.
	maxDrivers = 64
	// maxEngines limits the engines of a driver.
	maxEngines = 16
	// maxOpens limits the addresses with open ports that a driver reports.
	maxOpens = 16
	// maxDevices limits the devices of a driver.
	maxDevices = 64
)

// Beat limits a beat to values that an honest node can send. It removes the inventories and changes the lists in place.
func Beat(b writ.Beat) writ.Beat {
	b.Health = health(b.Health)
	b.Boot = HostWord(b.Boot)
	b.Active = b.Active[:min(len(b.Active), maxActive)]
	b.Progress = b.Progress[:min(len(b.Progress), maxProgress)]
	for i := range b.Progress {
		b.Progress[i].Text = clip.Text(b.Progress[i].Text, MaxText)
	}
	b.Inventories = nil // handled separately
	return b
}

// health limits the health in a beat. It changes the lists in place.
func health(h writ.Health) writ.Health {
	h.Slots = min(max(h.Slots, 0), maxSlots)
	h.Capacity = writ.Capacity{
		CPUs: Amount(h.Capacity.CPUs), Hundredths: min(max(h.Capacity.Hundredths, 0), 99),
		MemoryMiB: Amount(h.Capacity.MemoryMiB), DiskGiB: Amount(h.Capacity.DiskGiB),
	}
	h.Version = clip.Text(h.Version, MaxWord)
	h.Transfers = address(h.Transfers)
	h.Fault = clip.Text(h.Fault, MaxText)
	h.Stuck = h.Stuck[:min(len(h.Stuck), maxStuck)]
	for i := range h.Stuck {
		s := &h.Stuck[i]
		s.Operation, s.Name = clip.Text(s.Operation, MaxWord), clip.Text(s.Name, MaxWord)
		s.Project = writ.ProjectID(clip.Text(string(s.Project), MaxWord))
	}
	h.Drivers = h.Drivers[:min(len(h.Drivers), maxDrivers)]
	for i := range h.Drivers {
		limitDriver(&h.Drivers[i])
	}
	return h
}

func limitDriver(d *writ.NodeDriver) {
	d.Module = clip.Text(d.Module, MaxWord)
	d.Name = clip.Text(d.Name, MaxWord)
	d.Detail = clip.Text(d.Detail, MaxText)
	d.Lacks = clip.Text(d.Lacks, MaxText)
	d.Engines = d.Engines[:min(len(d.Engines), maxEngines)]
	d.Opens = slices.DeleteFunc(d.Opens[:min(len(d.Opens), maxOpens)], func(text string) bool {
		_, err := opening.Parse(text)
		return err != nil || len(text) > MaxText
	})
	d.Devices = slices.DeleteFunc(d.Devices[:min(len(d.Devices), maxDevices)],
		func(name string) bool { return !catalog.IsDevice(name) })
	for i, e := range d.Engines {
		d.Engines[i] = writ.Engine{
			Name: clip.Text(e.Name, MaxWord), Version: clip.Text(e.Version, MaxWord),
			Refused: clip.Text(e.Refused, MaxText),
		}
	}
}

// address returns text if it is a host and a port, else "". A node that connects to the address resolves the name and
// decides whether the connection is allowed.
func address(text string) string {
	host, port, err := net.SplitHostPort(text)
	number, wrong := strconv.ParseUint(port, 10, 16)
	odd := strings.ContainsFunc(host,
		func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`/\@?#"'`, r) })
	if err != nil || wrong != nil || number == 0 || host == "" || odd || len(text) > MaxText {
		return ""
	}
	return text
}

// Calls returns the valid call numbers of an inventory, sorted and without duplicates. It changes calls.
func Calls(calls []int) []int {
	calls = slices.DeleteFunc(calls[:min(len(calls), scripts.MaxCalls)],
		func(seq int) bool { return seq < 1 || seq > scripts.MaxCalls })
	slices.Sort(calls)
	return slices.Clone(slices.Compact(calls))
}
