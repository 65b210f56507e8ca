package supervisor

import (
	"time"

	"writ"
)

// boundHealth limits the health in a beat to values that an honest node can report. It changes the lists in place.
func boundHealth(h writ.Health) writ.Health {
	h.Slots = min(max(h.Slots, 0), maxSlots)
	h.Capacity = writ.Capacity{
		CPUs: amountOf(h.Capacity.CPUs), MemoryMiB: amountOf(h.Capacity.MemoryMiB), DiskGiB: amountOf(h.Capacity.DiskGiB),
	}
	h.Version, h.Transfers, h.Fault = clip(h.Version, maxWord), addressOf(h.Transfers), clip(h.Fault, maxText)
	h.Stuck = h.Stuck[:min(len(h.Stuck), maxStuck)]
	for i := range h.Stuck {
		s := &h.Stuck[i]
		s.Operation, s.Name = clip(s.Operation, maxWord), clip(s.Name, maxWord)
		s.Project = writ.ProjectID(clip(string(s.Project), maxWord))
	}
	h.Drivers = h.Drivers[:min(len(h.Drivers), maxDrivers)]
	for i := range h.Drivers {
		boundDriver(&h.Drivers[i])
	}
	return h
}

func boundDriver(d *writ.NodeDriver) {
	d.Module, d.Name, d.Detail, d.Lacks = clip(d.Module,
		maxWord), clip(d.Name, maxWord), clip(d.Detail, maxText), clip(d.Lacks, maxText)
	d.Engines = d.Engines[:min(len(d.Engines), maxEngines)]
	for i, e := range d.Engines {
		d.Engines[i] = writ.Engine{
			Name: clip(e.Name, maxWord), Version: clip(e.Version, maxWord), Refused: clip(e.Refused, maxText),
		}
	}
}

// boundFindings limits the findings in a report to values that an honest node can report. It changes the lists in
// place.
func boundFindings(f writ.Findings) writ.Findings {
	f.Mended = max(f.Mended, 0)
	f.Orphans = moderateOrphans(f.Orphans)
	moderateNetwork(f.Network)
	f.Disks = moderateDisks(f.Disks)
	return f
}

// boundHostFacts limits the facts in the journal, which an attacker may have written, to valid values.
func boundHostFacts(f writ.HostFacts, now time.Time) writ.HostFacts {
	if f.Host != nil {
		f.Host = moderateHost(*f.Host, now)
	}
	f.Boot, f.Restarts, f.Online = hostWord(f.Boot), max(f.Restarts, 0), keptOnline(f.Online)
	return f
}
