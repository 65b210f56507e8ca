package roster

import (
	"net/url"
	"strings"
	"testing"

	"writ"
)

func TestNewNameHasNoFormOfAnID(t *testing.T) {
	for name, good := range map[string]bool{
		"web-1": true, "0198f1c2-7a3b-7c4d-8e5f-0123456789ab": false, "Web": false, "": false, "web shop": false,
	} {
		err := checkNewName("datacenter", name)
		if (err == nil) != good || err != nil && (writ.CodeOf(err) != writ.CodeUsage || !strings.Contains(writ.AsError(err).Hint, "web-1")) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestPublishedAddressCanBeReached(t *testing.T) {
	for address, why := range map[string]string{
		"https://writ.example.org:7440": "", "https://10.0.0.6": "", "http://127.0.0.1:7440": "", "https://[2001:db8::1]:7440": "",
		"https://alice:secret@writ.example.org": "user and password", "https://:7440": "no host", "https://writ.example.org:0": "1 to 65535",
		"https://writ.example.org:70000": "1 to 65535", "https://0.0.0.0:7440": "can listen", "https://[::]:7440": "can listen",
		"https://169.254.1.1:7440": "other networks", "https://[ff02::1]:7440": "other networks",
		"http://10.0.0.6:7440": "only loopback", "http://writ.example.org": "only loopback", "http://[::1]:7440": "", "http://localhost:7440": "",
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		err = checkPublished(u)
		if (err == nil) != (why == "") || err != nil && (!strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "secret@")) {
			t.Errorf("%s: %v, want %q", address, err, why)
		}
	}
}

func TestCoordinatorCommandListensAtItsAddress(t *testing.T) {
	for address, want := range map[string]string{
		"http://127.0.0.1:7440": "writ coord --data d", "http://127.0.0.1:9000": "writ coord --data d --listen 127.0.0.1:9000",
		"http://localhost:7440": "writ coord --data d --listen localhost:7440", "https://10.0.0.6:7440": "writ coord --data d --listen 10.0.0.6:7440",
		"https://[2001:db8::1]": "writ coord --data d --listen [2001:db8::1]:443", "https://writ.example.org:7440": "writ coord --data d --listen ADDRESS:7440",
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := coordinatorStart("d", u); got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}

func TestSupervisorCommandLetsNodesIn(t *testing.T) {
	for coordinator, want := range map[string]string{
		"http://127.0.0.1:7440":  "--coordinator http://127.0.0.1:7440 --redis redis://127.0.0.1:6379/0 --listen 127.0.0.1:7441",
		"https://10.0.0.6:7440":  "--coordinator https://10.0.0.6:7440 --listen ADDRESS:7441 --redis @redis.url --redis-listen ADDRESS:6379",
		"https://localhost:7440": "--coordinator https://localhost:7440 --redis redis://127.0.0.1:6379/0 --listen 127.0.0.1:7441",
	} {
		if got := supervisorCommand("dc1", coordinator); got != "writ supervisor --data ./dc1 --dc dc1 "+want {
			t.Errorf("%s: %q", coordinator, got)
		}
	}
}
