package supervisor

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"writ"
	"writ/internal/clip"
	"writ/internal/hidden"
	"writ/supervisor/bound"
	"writ/supervisor/nodes"
)

const (
	// maxReported bounds each list of a report, maxDrift the sentences about one resource.
	maxReported = 500
	maxDrift    = 20
	// maxMendings is more often than a node can mend anything: a count above it is none.
	maxMendings = 1 << 40
	// maxTime is the end of the year 9999, in unix milliseconds: later times are no JSON.
	maxTime = 253_402_300_799_999
	// maxListed bounds each list about the networks of a node.
	maxListed = 64
)

// mostUsed is more than any resource uses in an hour: 4,096 processors, 64 TiB of memory, 16 PiB of disk, 800 Gbit/s
// each way.
var mostUsed = writ.Used{
	CPUSeconds: 4096 * 3600, MemoryMiBSeconds: 64 << 20 * 3600, DiskGiBSeconds: 16 << 20 * 3600, Received: 100e9 * 3600,
	Sent: 100e9 * 3600,
}

// moderateReport cuts a report down to what a node can mean, in place.
func moderateReport(r *writ.Report) *writ.Report {
	r.Drifts = r.Drifts[:min(len(r.Drifts), maxReported)]
	for i, d := range r.Drifts {
		lasts := d.Lasts[:min(len(d.Lasts), maxDrift)]
		for j := range lasts {
			lasts[j] = clip.Text(lasts[j], bound.MaxText)
		}
		r.Drifts[i].Lasts = lasts
	}
	r.States = r.States[:min(len(r.States), maxReported)]
	for i := range r.States {
		r.States[i].Standing = bound.Standing(r.States[i].Standing)
	}
	r.Mendings = r.Mendings[:min(len(r.Mendings), maxReported)]
	for i := range r.Mendings {
		m := &r.Mendings[i]
		m.Count, m.What = min(m.Count, maxMendings), clip.Text(m.What, bound.MaxText)
		m.Time = min(max(m.Time, 0), maxTime)
	}
	r.Findings = boundFindings(r.Findings)
	r.Usage = slices.DeleteFunc(r.Usage[:min(len(r.Usage), maxReported)], func(u writ.Usage) bool {
		return u.Project == "" || u.UID == "" || len(u.Name) > bound.MaxWord || len(u.Project) > bound.MaxWord ||
			len(u.Kind) > bound.MaxWord ||
			len(u.UID) > bound.MaxWord
	})
	for i := range r.Usage {
		u := &r.Usage[i]
		u.Node = r.Node // it speaks for itself only
		u.Used = moderateUsed(u.Used)
	}
	return r
}

// moderateUsed takes each number between none and mostUsed.
func moderateUsed(u writ.Used) writ.Used {
	u = u.Most(writ.Used{})
	return writ.Used{
		CPUSeconds:       min(u.CPUSeconds, mostUsed.CPUSeconds),
		MemoryMiBSeconds: min(u.MemoryMiBSeconds, mostUsed.MemoryMiBSeconds),
		DiskGiBSeconds:   min(u.DiskGiBSeconds, mostUsed.DiskGiBSeconds), Received: min(u.Received, mostUsed.Received),
		Sent: min(u.Sent, mostUsed.Sent),
	}
}

// moderateOrphans cuts down what a node says of what belongs to no resource.
func moderateOrphans(all []writ.Orphan) []writ.Orphan {
	all = all[:min(len(all), maxStuck)]
	for i, o := range all {
		if len(o.Remedy) > bound.MaxText {
			o.Remedy = "" // half a command may do anything
		}
		all[i] = writ.Orphan{
			Module: clip.Text(o.Module, bound.MaxWord), Kind: clip.Text(o.Kind, bound.MaxWord),
			Name: clip.Text(o.Name, bound.MaxText), Of: clip.Text(o.Of, bound.MaxWord),
			Remedy: o.Remedy,
		}
	}
	return all
}

// moderateNetwork cuts down what a node says of its networks, in place.
func moderateNetwork(n *writ.NodeNetwork) {
	if n == nil {
		return
	}
	n.Ports = n.Ports[:min(len(n.Ports), maxListed)]
	for i := range n.Ports {
		p := &n.Ports[i]
		p.Owner, p.Network = clip.Text(p.Owner, bound.MaxText), clip.Text(p.Network, bound.MaxWord)
	}
	o := n.Overlay
	if o == nil {
		return
	}
	o.Address = clip.Text(o.Address, bound.MaxWord)
	o.Subnet = clip.Text(o.Subnet, bound.MaxWord)
	o.Version = clip.Text(o.Version, bound.MaxWord)
	o.Detail = clip.Text(o.Detail, bound.MaxText)
	o.Peers, o.Routes = o.Peers[:min(len(o.Peers), maxListed)], o.Routes[:min(len(o.Routes), maxListed)]
	for i := range o.Peers {
		p := &o.Peers[i]
		p.Endpoint = clip.Text(p.Endpoint, bound.MaxText)
		p.Type = clip.Text(p.Type, bound.MaxWord)
		p.State = clip.Text(p.State, bound.MaxWord)
	}
	for i := range o.Routes {
		o.Routes[i].Subnet = clip.Text(o.Routes[i].Subnet, bound.MaxWord)
		o.Routes[i].NextHop = clip.Text(o.Routes[i].NextHop, bound.MaxText)
	}
}

// moderateHost returns what a node says of its machine as people can be shown it. Nothing else follows from it.
func moderateHost(h writ.Host, now time.Time) *writ.Host {
	for _, text := range []*string{&h.OS, &h.Image, &h.Kernel, &h.Vendor, &h.Product, &h.Serial, &h.CPU} {
		*text = hostWord(*text)
	}
	h.MemoryMiB = bound.Amount(h.MemoryMiB)
	if h.Booted = h.Booted.UTC(); h.Booted.Year() < 1970 || h.Booted.After(now.Add(maxSkew)) {
		h.Booted = time.Time{} // else nobody can tell how long it runs, and some years are no JSON
	}
	parts := nodes.MaxParts
	h.Disks = slices.Clone(h.Disks[:min(len(h.Disks), nodes.MaxDisks)])
	for i := range h.Disks {
		d := &h.Disks[i]
		d.Name, d.Bytes, d.Model, d.Serial = hostWord(d.Name), max(d.Bytes, 0), hostWord(d.Model), hostWord(d.Serial)
		d.Parts = slices.Clone(d.Parts[:min(len(d.Parts), parts)])
		parts -= len(d.Parts)
		for j, p := range d.Parts {
			d.Parts[j] = writ.HostPart{
				Name: hostWord(p.Name), Bytes: max(p.Bytes, 0), Label: hostWord(p.Label), Mounted: hostWord(p.Mounted),
			}
		}
	}
	h.NICs = slices.Clone(h.NICs[:min(len(h.NICs), nodes.MaxNICs)])
	for i := range h.NICs {
		n := &h.NICs[i]
		n.Name = hostWord(n.Name)
		n.MAC = hostWord(n.MAC)
		n.Driver = hostWord(n.Driver)
		n.SpeedMbit = bound.Amount(n.SpeedMbit)
		n.Addresses = slices.Clone(n.Addresses[:min(len(n.Addresses), nodes.MaxAddresses)])
		for j, address := range n.Addresses {
			n.Addresses[j] = hostWord(address)
		}
	}
	return &h
}

// hostWord is a text about a machine.
func hostWord(text string) string { return oneLine(text, nodes.MaxHostWord) }

// oneLine is a text of strangers in one line, without what commands a terminal or deceives a reader.
func oneLine(text string, most int) string {
	if len(text) > most { // before escapes make it longer
		text = strings.ToValidUTF8(text[:most], "")
	}
	text = hidden.Escape(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text))
	return clip.Text(strings.TrimSpace(text), most)
}
