package identity

import (
	"strings"
	"testing"
	"time"

	"writ"
)

func TestNodeSilencesHaveFormatThree(t *testing.T) {
	r := testRoster()
	want := Silence{Silent: 90 * time.Second, Lost: time.Hour}
	if err := r.Datacenters[0].SetSilence(want); err != nil {
		t.Fatal(err)
	}
	text, err := r.Text()
	if err != nil || !strings.HasPrefix(string(text), "writ-roster: v3\n") {
		t.Fatalf("%.20s, %v", text, err)
	}
	have, err := ParseRoster(text)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Datacenters {
		d := have.Datacenter(r.Datacenters[i].ID)
		if got := d.NodeSilence(); (got == want) != (i == 0) || i > 0 && got != DefaultSilence {
			t.Errorf("%s: %v", d.Name, got)
		}
	}
	id := string(r.Datacenters[0].ID)
	line := "node-silence: " + id + " 90s 1h\n"
	for name, bad := range map[string]string{
		"of another datacenter":   "node-silence: " + nodeID + " 90s 1h\n",
		"twice":                   line + line,
		"two for one":             line + "node-silence: " + id + " 91s 1h\n",
		"no durations":            "node-silence: " + id + " soon later\n",
		"the default":             "node-silence: " + id + " 5s 1m\n",
		"in another form":         "node-silence: " + id + " 1m30s 1h\n",
		"lost before it is quiet": "node-silence: " + id + " 90s 60s\n",
		"less than none":          "node-silence: " + id + " -90s 1h\n",
	} {
		bad = strings.Replace(string(text), line, bad, 1)
		if _, err := ParseRoster([]byte(bad)); writ.CodeOf(err) != writ.CodePayloadMalformed || bad == string(text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	old := strings.Replace(string(text), "writ-roster: v3", "writ-roster: v2", 1)
	if _, err := ParseRoster([]byte(old)); writ.CodeOf(err) != writ.CodePayloadMalformed {
		t.Errorf("in the second format: %v", err)
	}
	if err := r.Datacenters[0].SetSilence(DefaultSilence); err != nil || r.Format() != rosterFormatV1 {
		t.Errorf("with the default the format is v%d, %v", r.Format(), err)
	}
}

func TestTimesOfSilentNodesHaveBounds(t *testing.T) {
	for _, s := range []Silence{
		{}, {Silent: 2 * time.Second, Lost: time.Minute}, {Silent: 11 * time.Minute, Lost: time.Hour}, {Silent: 3 * time.Second, Lost: 14 * time.Second},
		{Silent: time.Minute, Lost: 25 * time.Hour}, {Silent: time.Minute, Lost: 119 * time.Second}, {Silent: 3500 * time.Millisecond, Lost: time.Minute},
	} {
		d := Datacenter{Silence: Silence{Silent: time.Minute, Lost: time.Hour}}
		if err := d.SetSilence(s); writ.CodeOf(err) != writ.CodeUsage || d.NodeSilence().Lost != time.Hour {
			t.Errorf("%+v: %v", s, err)
		}
	}
	for _, s := range []Silence{DefaultSilence, {Silent: 3 * time.Second, Lost: 15 * time.Second}, {Silent: 10 * time.Minute, Lost: 24 * time.Hour}} {
		var d Datacenter
		if err := d.SetSilence(s); err != nil || d.NodeSilence() != s {
			t.Errorf("%+v: %+v, %v", s, d.NodeSilence(), err)
		}
	}
}
