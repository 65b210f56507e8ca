package identity

import (
	"strings"
	"time"

	"writ"
)

// Silence says after how long without a word the nodes of a datacenter count as silent, and as lost. A silent node gets no new work and is offline. What a
// lost one may have begun is given up.
type Silence struct {
	Silent time.Duration
	Lost   time.Duration
}

// DefaultSilence is that of a datacenter whose roster says nothing of it.
var DefaultSilence = Silence{Silent: 5 * time.Second, Lost: 60 * time.Second}

// Bounds of Silence. Nodes speak every second, and a single late word is no silence.
const (
	minSilent = 3 * time.Second
	maxSilent = 10 * time.Minute
	minLost   = 15 * time.Second
	maxLost   = 24 * time.Hour
	// lostOverSilent is how many times as long a lost node has said nothing: first it gets no more work, and only then is given up what it has.
	lostOverSilent = 2
)

// Check returns an error (USAGE) if a datacenter cannot have these.
func (s Silence) Check() error {
	switch {
	case s.Silent%time.Second != 0 || s.Lost%time.Second != 0:
		return writ.Errorf(writ.CodeUsage, "%s and %s are not whole seconds", s.Silent, s.Lost).WithHint("write whole seconds, like 10s or 2m")
	case s.Silent < minSilent || s.Silent > maxSilent:
		return writ.Errorf(writ.CodeUsage, "a node cannot count as silent after %s: %s to %s are possible", formatDuration(s.Silent), formatDuration(minSilent), formatDuration(maxSilent))
	case s.Lost < minLost || s.Lost > maxLost:
		return writ.Errorf(writ.CodeUsage, "a node cannot count as lost after %s: %s to %s are possible", formatDuration(s.Lost), formatDuration(minLost), formatDuration(maxLost))
	case s.Lost < lostOverSilent*s.Silent:
		return writ.Errorf(writ.CodeUsage, "a node that is silent after %s cannot count as lost after %s: %s at least are possible",
			formatDuration(s.Silent), formatDuration(s.Lost), formatDuration(lostOverSilent*s.Silent))
	}
	return nil
}

// NodeSilence is what applies to the nodes of the datacenter; the default if d is nil.
func (d *Datacenter) NodeSilence() Silence {
	if d == nil || d.Silence == (Silence{}) {
		return DefaultSilence
	}
	return d.Silence
}

// SetSilence changes what applies to the nodes of the datacenter. The default is not written, so that earlier versions of writ read the roster.
func (d *Datacenter) SetSilence(s Silence) error {
	if err := s.Check(); err != nil {
		return err
	}
	if d.Silence = s; s == DefaultSilence {
		d.Silence = Silence{}
	}
	return nil
}

// writeSilences writes lines that the format v3 adds.
func (r *Roster) writeSilences(w *textWriter) {
	var silences []string
	for i := range r.Datacenters {
		d := &r.Datacenters[i]
		if d.Silence == (Silence{}) {
			continue
		}
		err := d.Silence.Check()
		w.check(err == nil, "node-silence", "of %s: %v", d.Name, err)
		w.check(d.Silence != DefaultSilence, "node-silence", "%s has what applies without this line", d.Name)
		silences = append(silences, strings.Join([]string{string(d.ID), formatDuration(d.Silence.Silent), formatDuration(d.Silence.Lost)}, " "))
	}
	w.lines("node-silence", silences)
}

func (r *textReader) silences(o *Roster) {
	for _, line := range r.many("node-silence") {
		f := r.fields(line, 3)
		d := o.Datacenter(writ.DatacenterID(f[0]))
		if d == nil {
			r.fail("there is no datacenter %q for node-silence", clip(f[0]))
			return
		}
		var err, lostErr error
		d.Silence.Silent, err = time.ParseDuration(f[1])
		d.Silence.Lost, lostErr = time.ParseDuration(f[2])
		if err != nil || lostErr != nil {
			r.fail("two durations such as 10s 5m are expected; got %q", clip(line))
			return
		}
	}
}
