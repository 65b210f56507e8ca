package testenv

import "testing"

func TestMentionsFindsWholeWords(t *testing.T) {
	const text = "no node is ready: n12 has 3 of 40 CPUs; writ release --dc ams1 --project shop (disk=ssd)"
	for word, want := range map[string]bool{
		"n12": true, "n1": false, "3": true, "4": false, "disk=ssd": true, "--project shop": true, "": false,
		"writ release --dc ams1 --project shop": true, "writ release --dc ams1": false, "ready": true, "read": false,
	} {
		if got := Mentions(text, "n12", word); got != want {
			t.Errorf("%q: %t", word, got)
		}
	}
	if !Mentions("n1-a and n1", "n1") {
		t.Error("a word after a longer one is not found")
	}
}
