package reasons

import (
	"strings"
	"testing"

	"writ"
)

func TestTheCommandIsAboutWhatTheReasonNames(t *testing.T) {
	t.Parallel()
	own, other := writ.RunID(strings.Repeat("a", 26)), writ.RunID(strings.Repeat("b", 26))
	for why, want := range map[string]string{
		"": "",
		"call 1 (herodb.create db) is running on n1":                                                                                                      "",
		"call 1 (node.ping) is running on node-1: simulating node.ping: 0 %":                                                                              "",
		"its datacenter cannot go on: its queue is away; it said last: call 1 (herodb.create db) is queued on n1, which is silent":                        "writ dc list",
		"call 1 (node.ping) is planned: is on hold (writ release --dc dc1 --project shop): alice has held the project shop since 12:00:00 UTC":            "writ release --dc dc1 --project shop",
		"is on hold (writ release --dc dc1; reboot): alice has held it":                                                                                   "",
		"waits for run " + string(other) + ", an earlier one of the deployment web":                                                                       "writ run explain " + string(other),
		"waits for run " + string(own) + ", an earlier one of the deployment web":                                                                         "",
		"another run, " + string(other) + ", still works on the herodb db":                                                                                "writ run explain " + string(other),
		"call 1 (node.ping) is planned: no node is ready: n2: has no label gpu=h100; n1: is cordoned":                                                     "writ node uncordon n1 --dc dc1",
		"no node is ready: n1, n2, n3 and 4 more: is draining; n9: is silent":                                                                             "writ node uncordon n3 --dc dc1",
		"no node is ready: n1: is silent":                                                                                                                 "writ node list",
		"no node is ready: the datacenter has no nodes yet":                                                                                               "writ node list",
		"no node is ready: $(reboot): is cordoned":                                                                                                        "writ node list",
		"waits for node n1, which is silent":                                                                                                              "writ node show n1 --dc dc1",
		"call 2 (volume.create v) is running on n1, which is lost":                                                                                        "writ node lost n1 --dc dc1",
		"waits for node n1, which is lost":                                                                                                                "writ node lost n1 --dc dc1",
		"waits for node n1, which is removed":                                                                                                             "writ node lost n1 --dc dc1",
		"its node n1 is lost; the call waits for it (on_loss)":                                                                                            "writ node lost n1 --dc dc1",
		"call 1 (node.ping) is queued: its node n1 is lost; another one does it once a person has signed that it never comes back":                        "writ node lost n1 --dc dc1",
		"waits for node reports (writ node list): n1, n2 (which is lost) have not said yet what there is of this run":                                     "writ node lost n2 --dc dc1",
		"waits for node reports (writ node list): n1 (which is silent) has not said yet what there is of this run":                                        "writ node list",
		"call 2 (volume.create v) is queued on n1, which takes no work: the disk is full":                                                                 "writ node show n1 --dc dc1",
		"waits for the datacenter dc1 to connect":                                                                                                         "writ dc list",
		"ending: its node n1 is lost; ":                                                                                                                   "",
		"it repeats volume.create v at a.tengo:1:1: look for a loop that does not end; ending: is on hold (writ release --dc dc1): x":                     "",
		"call 1 (image.fetch i) is planned: is tried again at 12:00:00 UTC, after DOWNLOAD_FAILED: the server says: waits for node n1, which is lost":     "",
		"call 1 (image.fetch i) is planned: is tried again at 12:00:00 UTC, after DOWNLOAD_FAILED: the server says: is on hold (writ release --dc dc1): ": "",
		"its datacenter is away, and said last: waits for node n1, which is silent":                                                                       "writ dc list",
		"its datacenter is away, and said last: waits for run " + string(other) + ", an older":                                                            "writ dc list",
	} {
		if got := Next(why, own, "dc1"); got != want {
			t.Errorf("%q: %q, want %q", why, got, want)
		}
	}
	if got := Next("waits for node n1, which is lost", own, "$(reboot)"); got != "writ node lost n1" {
		t.Errorf("of a datacenter without a proper name: %q", got)
	}
}

func TestLostNodeCommandSaysWhatItDoes(t *testing.T) {
	t.Parallel()
	const why = "its node n1 is lost; another one does it once a person has signed that it never comes back"
	command := Next(why+" (writ node lost n1)", "", "dc1")
	if got := Without(why+" (writ node lost n1)", command); got != why {
		t.Errorf("without its command: %q", got)
	}
	if does := Does(command); !strings.HasPrefix(does, "if the machine never comes back: ") {
		t.Errorf("%s: %q", command, does)
	}
	if does := Does(Shown(command)); does != "" || Shown(command) != "writ node show n1 --dc dc1" {
		t.Errorf("%s: %q", Shown(command), does)
	}
}
