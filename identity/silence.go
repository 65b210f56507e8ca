package identity

import (
	"strings"
	"time"

	"writ"
	"writ/identity/header"
)

// Silence holds the times after the last beat at which a node of a datacenter counts as silent and as lost. A silent
// node gets no new work and counts as offline. The open calls of a lost node are given up.
type Silence struct {
	Silent time.Duration
	Lost   time.Duration
}

// DefaultSilence applies if the roster has no other value for the datacenter. With DefaultSilence, a node without jobs
// sends beats at longer intervals, and counts as silent after three such intervals.
var DefaultSilence = Silence{Silent: 5 * time.Second, Lost: 60 * time.Second}

// Limits of Silence. Nodes with jobs send a beat every second, and a single late beat must not count as silence.
const (
	minSilent = 3 * time.Second
	maxSilent = 10 * time.Minute
	minLost   = 15 * time.Second
	maxLost   = 24 * time.Hour
	// lostOverSilent is the minimum ratio of Lost to Silent: a node must stop getting work well before its work is
	// given up.
	lostOverSilent = 2
)

// Check returns a USAGE error if the values are out of range.
func (s Silence) Check() error {
	switch {
	case s.Silent%time.Second != 0 || s.Lost%time.Second != 0:
		return writ.Errorf(writ.CodeUsage, "%s and %s are not whole seconds", s.Silent, s.Lost).
			WithHint("write whole seconds, like 10s or 2m")
	case s.Silent < minSilent || s.Silent > maxSilent:
		return writ.Errorf(writ.CodeUsage, "a node cannot count as silent after %s: %s to %s are allowed",
			header.FormatDuration(s.Silent), header.FormatDuration(minSilent), header.FormatDuration(maxSilent))
	case s.Lost < minLost || s.Lost > maxLost:
		return writ.Errorf(writ.CodeUsage, "a node cannot count as lost after %s: %s to %s are allowed",
			header.FormatDuration(s.Lost), header.FormatDuration(minLost), header.FormatDuration(maxLost))
	case s.Lost < lostOverSilent*s.Silent:
		return writ.Errorf(writ.CodeUsage,
			"a node that is silent after %s cannot count as lost after %s: the minimum is %s",
			header.FormatDuration(s.Silent), header.FormatDuration(s.Lost), header.FormatDuration(lostOverSilent*s.Silent))
	}
	return nil
}

// NodeSilence returns the times for the nodes of the datacenter. It returns DefaultSilence if d is nil or sets no
// times.
func (d *Datacenter) NodeSilence() Silence {
	if d == nil || d.Silence == (Silence{}) {
		return DefaultSilence
	}
	return d.Silence
}

// SetSilence sets the times for the nodes of the datacenter. The default is stored as zero, so that earlier versions of
// writ can read the roster.
func (d *Datacenter) SetSilence(s Silence) error {
	if err := s.Check(); err != nil {
		return err
	}
	if d.Silence = s; s == DefaultSilence {
		d.Silence = Silence{}
	}
	return nil
}

// silences writes the "node-silence" lines, which need at least the format v3.
func (w *rosterWriter) silences() {
	var silences []string
	for i := range w.roster.Datacenters {
		d := &w.roster.Datacenters[i]
		if d.Silence == (Silence{}) {
			continue
		}
		err := d.Silence.Check()
		w.Check(err == nil, "node-silence", "of %s: %v", d.Name, err)
		w.Check(d.Silence != DefaultSilence, "node-silence", "%s has the default values, which need no line", d.Name)
		silences = append(silences,
			strings.Join([]string{string(d.ID), header.FormatDuration(d.Silence.Silent), header.FormatDuration(d.Silence.Lost)},
				" "))
	}
	w.Lines("node-silence", silences)
}

func (r *rosterReader) silences() {
	for _, line := range r.Many("node-silence") {
		f := r.Fields(line, 3)
		d := r.roster.Datacenter(writ.DatacenterID(f[0]))
		if d == nil {
			r.Fail("unknown datacenter %q for node-silence", header.Clip(f[0]))
			return
		}
		var err, lostErr error
		d.Silence.Silent, err = time.ParseDuration(f[1])
		d.Silence.Lost, lostErr = time.ParseDuration(f[2])
		if err != nil || lostErr != nil {
			r.Fail("two durations such as 10s 5m are expected; got %q", header.Clip(line))
			return
		}
	}
}
