package supervisor

import (
	"time"

	"writ/internal/clip"
	"writ/supervisor/bound"

	"writ"
)

// boundHealth limits the health in a beat to values that an honest node can report. It changes the lists in place.
func boundHealth(h writ.Health) writ.Health {
	h.Slots = min(max(h.Slots, 0), maxSlots)
	h.Capacity = writ.Capacity{
		CPUs: bound.Amount(h.Capacity.CPUs), MemoryMiB: bound.Amount(h.Capacity.MemoryMiB),
		DiskGiB: bound.Amount(h.Capacity.DiskGiB),
	}
	h.Version = clip.Text(h.Version, bound.MaxWord)
	h.Transfers = addressOf(h.Transfers)
	h.Fault = clip.Text(h.Fault, bound.MaxText)
	h.Stuck = h.Stuck[:min(len(h.Stuck), maxStuck)]
	for i := range h.Stuck {
		s := &h.Stuck[i]
		s.Operation, s.Name = clip.Text(s.Operation, bound.MaxWord), clip.Text(s.Name, bound.MaxWord)
		s.Project = writ.ProjectID(clip.Text(string(s.Project), bound.MaxWord))
	}
	h.Drivers = h.Drivers[:min(len(h.Drivers), maxDrivers)]
	for i := range h.Drivers {
		boundDriver(&h.Drivers[i])
	}
	return h
}

func boundDriver(d *writ.NodeDriver) {
	d.Module = clip.Text(d.Module, bound.MaxWord)
	d.Name = clip.Text(d.Name, bound.MaxWord)
	d.Detail = clip.Text(d.Detail, bound.MaxText)
	d.Lacks = clip.Text(d.Lacks, bound.MaxText)
	d.Engines = d.Engines[:min(len(d.Engines), maxEngines)]
	for i, e := range d.Engines {
		d.Engines[i] = writ.Engine{
			Name: clip.Text(e.Name, bound.MaxWord), Version: clip.Text(e.Version, bound.MaxWord),
			Refused: clip.Text(e.Refused, bound.MaxText),
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
