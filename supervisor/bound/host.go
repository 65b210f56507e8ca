package bound

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"writ"
	"writ/internal/clip"
	"writ/internal/hidden"
	"writ/supervisor/nodes"
)

const (
	// MaxSkew limits the difference between the clocks of a node and the supervisor. If the difference is larger, the
	// node gets no work, because the node's clock decides whether envelopes have expired.
	MaxSkew = 30 * time.Second
	// OnlineMonth is the time format of the month of an online entry.
	OnlineMonth = "2006-01"
	// MaxOnline limits the stored months of online time of a node.
	MaxOnline = 13
)

// Host limits a node's description of its machine for display. It copies the lists.
func Host(h writ.Host, now time.Time) *writ.Host {
	for _, text := range []*string{&h.OS, &h.Image, &h.Kernel, &h.Vendor, &h.Product, &h.Serial, &h.CPU} {
		*text = HostWord(*text)
	}
	h.MemoryMiB = Amount(h.MemoryMiB)
	if h.Booted = h.Booted.UTC(); h.Booted.Year() < 1970 || h.Booted.After(now.Add(MaxSkew)) {
		h.Booted = time.Time{} // the uptime is unknown, and JSON cannot represent some years
	}
	parts := nodes.MaxParts
	h.Disks = slices.Clone(h.Disks[:min(len(h.Disks), nodes.MaxDisks)])
	for i := range h.Disks {
		d := &h.Disks[i]
		d.Name, d.Bytes, d.Model, d.Serial = HostWord(d.Name), max(d.Bytes, 0), HostWord(d.Model), HostWord(d.Serial)
		d.Parts = slices.Clone(d.Parts[:min(len(d.Parts), parts)])
		parts -= len(d.Parts)
		for j, p := range d.Parts {
			d.Parts[j] = writ.HostPart{
				Name: HostWord(p.Name), Bytes: max(p.Bytes, 0), Label: HostWord(p.Label), Mounted: HostWord(p.Mounted),
			}
		}
	}
	h.NICs = slices.Clone(h.NICs[:min(len(h.NICs), nodes.MaxNICs)])
	for i := range h.NICs {
		n := &h.NICs[i]
		n.Name = HostWord(n.Name)
		n.MAC = HostWord(n.MAC)
		n.Driver = HostWord(n.Driver)
		n.SpeedMbit = Amount(n.SpeedMbit)
		n.Addresses = slices.Clone(n.Addresses[:min(len(n.Addresses), nodes.MaxAddresses)])
		for j, address := range n.Addresses {
			n.Addresses[j] = HostWord(address)
		}
	}
	return &h
}

// HostFacts limits the host facts in the journal, which an attacker may have written.
func HostFacts(f writ.HostFacts, now time.Time) writ.HostFacts {
	if f.Host != nil {
		f.Host = Host(*f.Host, now)
	}
	f.Boot, f.Restarts, f.Online = HostWord(f.Boot), max(f.Restarts, 0), online(f.Online)
	return f
}

// online returns the newest MaxOnline valid entries of `all`.
func online(all []writ.Online) []writ.Online {
	all = slices.DeleteFunc(slices.Clone(all), func(o writ.Online) bool {
		_, err := time.Parse(OnlineMonth, o.Month)
		return err != nil || o.Seconds < 0 || o.Of < o.Seconds
	})
	return all[max(len(all)-MaxOnline, 0):]
}

// HostWord limits a text about a machine for display.
func HostWord(text string) string { return OneLine(text, nodes.MaxHostWord) }

// OneLine returns text as one line of at most limit bytes. It escapes characters that control a terminal or mislead a
// reader.
func OneLine(text string, limit int) string {
	if len(text) > limit { // before escapes make the text longer
		text = strings.ToValidUTF8(text[:limit], "")
	}
	text = hidden.Escape(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text))
	return clip.Text(strings.TrimSpace(text), limit)
}
