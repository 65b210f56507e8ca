package bound

import (
	"slices"

	"writ"
	"writ/internal/clip"
)

const (
	// maxReported limits each list of a report.
	maxReported = 500
	// maxDrift limits the sentences about the drift of a resource.
	maxDrift = 20
	// maxMendings limits the count of repairs in a report. No real node makes more repairs.
	maxMendings = 1 << 40
	// maxTime is the end of the year 9999 in Unix milliseconds. JSON cannot represent later times.
	maxTime = 253_402_300_799_999
	// maxListed limits each list about the networks of a node.
	maxListed = 64
	// maxDisks limits the disks of a node.
	maxDisks = 32
	// maxDiskBytes exceeds the size of any real disk.
	maxDiskBytes = 1 << 60
)

// maxUsed exceeds the usage of any resource in one hour: 4,096 processors, 64 TiB of memory, 16 PiB of disk and
// 800 Gbit/s in each direction.
var maxUsed = writ.Used{
	CPUSeconds: 4096 * 3600, MemoryMiBSeconds: 64 << 20 * 3600, DiskGiBSeconds: 16 << 20 * 3600, Received: 100e9 * 3600,
	Sent: 100e9 * 3600,
}

// Report limits a report, in place, to values that an honest node can send.
func Report(r *writ.Report) *writ.Report {
	r.Drifts = r.Drifts[:min(len(r.Drifts), maxReported)]
	for i, d := range r.Drifts {
		lasts := d.Lasts[:min(len(d.Lasts), maxDrift)]
		for j := range lasts {
			lasts[j] = clip.Text(lasts[j], MaxText)
		}
		r.Drifts[i].Lasts = lasts
	}
	r.States = r.States[:min(len(r.States), maxReported)]
	for i := range r.States {
		r.States[i].Standing = Standing(r.States[i].Standing)
	}
	r.Mendings = r.Mendings[:min(len(r.Mendings), maxReported)]
	for i := range r.Mendings {
		m := &r.Mendings[i]
		m.Count, m.What = min(m.Count, maxMendings), clip.Text(m.What, MaxText)
		m.Time = min(max(m.Time, 0), maxTime)
	}
	r.Findings = findings(r.Findings)
	r.Usage = slices.DeleteFunc(r.Usage[:min(len(r.Usage), maxReported)], func(u writ.Usage) bool {
		return u.Project == "" || u.UID == "" || len(u.Name) > MaxWord || len(u.Project) > MaxWord ||
			len(u.Kind) > MaxWord ||
			len(u.UID) > MaxWord
	})
	for i := range r.Usage {
		u := &r.Usage[i]
		u.Node = r.Node // a node reports only its own usage
		u.Used = used(u.Used)
	}
	return r
}

// used limits each amount to the range from 0 to maxUsed.
func used(u writ.Used) writ.Used {
	u = u.Most(writ.Used{})
	return writ.Used{
		CPUSeconds:       min(u.CPUSeconds, maxUsed.CPUSeconds),
		MemoryMiBSeconds: min(u.MemoryMiBSeconds, maxUsed.MemoryMiBSeconds),
		DiskGiBSeconds:   min(u.DiskGiBSeconds, maxUsed.DiskGiBSeconds), Received: min(u.Received, maxUsed.Received),
		Sent: min(u.Sent, maxUsed.Sent),
	}
}

// findings limits the findings in a report. It changes the lists in place.
func findings(f writ.Findings) writ.Findings {
	f.Mended = max(f.Mended, 0)
	f.Orphans = Orphans(f.Orphans)
	limitNetwork(f.Network)
	f.Disks = disks(f.Disks)
	return f
}

// Orphans limits the list of objects on a node that belong to no resource. It changes the list in place.
func Orphans(all []writ.Orphan) []writ.Orphan {
	all = all[:min(len(all), maxStuck)]
	for i, o := range all {
		if len(o.Remedy) > MaxText {
			o.Remedy = "" // a truncated command is dangerous
		}
		all[i] = writ.Orphan{
			Module: clip.Text(o.Module, MaxWord), Kind: clip.Text(o.Kind, MaxWord),
			Name: clip.Text(o.Name, MaxText), Of: clip.Text(o.Of, MaxWord),
			Remedy: o.Remedy,
		}
	}
	return all
}

// limitNetwork limits the networks of a node, in place. n may be nil.
func limitNetwork(n *writ.NodeNetwork) {
	if n == nil {
		return
	}
	n.Ports = n.Ports[:min(len(n.Ports), maxListed)]
	for i := range n.Ports {
		p := &n.Ports[i]
		p.Owner, p.Network = clip.Text(p.Owner, MaxText), clip.Text(p.Network, MaxWord)
	}
	o := n.Overlay
	if o == nil {
		return
	}
	o.Address = clip.Text(o.Address, MaxWord)
	o.Subnet = clip.Text(o.Subnet, MaxWord)
	o.Version = clip.Text(o.Version, MaxWord)
	o.Detail = clip.Text(o.Detail, MaxText)
	o.Peers, o.Routes = o.Peers[:min(len(o.Peers), maxListed)], o.Routes[:min(len(o.Routes), maxListed)]
	for i := range o.Peers {
		p := &o.Peers[i]
		p.Endpoint = clip.Text(p.Endpoint, MaxText)
		p.Type = clip.Text(p.Type, MaxWord)
		p.State = clip.Text(p.State, MaxWord)
	}
	for i := range o.Routes {
		o.Routes[i].Subnet = clip.Text(o.Routes[i].Subnet, MaxWord)
		o.Routes[i].NextHop = clip.Text(o.Routes[i].NextHop, MaxText)
	}
}

// disks limits the disks in a report and removes duplicate paths.
func disks(all []writ.Disk) []writ.Disk {
	var kept []writ.Disk
	for _, d := range all[:min(len(all), maxDisks)] {
		d.Path, d.Bytes = HostWord(d.Path), min(max(d.Bytes, 0), maxDiskBytes)
		d.Free = min(max(d.Free, 0), d.Bytes)
		if !slices.ContainsFunc(kept, func(k writ.Disk) bool { return k.Path == d.Path }) {
			kept = append(kept, d)
		}
	}
	return kept
}
