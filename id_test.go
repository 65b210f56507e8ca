package writ_test

import (
	"strings"
	"testing"
	"writ/internal/test/testenv"

	"pgregory.net/rapid"

	"writ"
)

// The ids below were computed by another program. They are part of the protocol: all versions of clients, coordinators
// and supervisors must compute the same ids.
func TestRunIDIsAFunctionOfThePayload(t *testing.T) {
	digest := writ.DigestOf([]byte("hello\n"))
	if got, want := digest.String(), "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"; got != want {
		t.Fatalf("digest = %s, want %s", got, want)
	}
	if got, want := writ.RunIDOf(digest), writ.RunID("chfmr6igut3cuwi7smnztsvjbu"); got != want {
		t.Errorf("run id = %s, want %s", got, want)
	}
}

func TestHostNameIsAFunctionOfTheResource(t *testing.T) {
	const project = "0192f6c2-0000-7000-8000-000000000001"
	for _, tt := range []struct {
		kind writ.ResourceKind
		want string
	}{
		{writ.KindMachine, "m4ojewmpnrj"},
		{writ.KindVolume, "vlebtwcl6sm"},
	} {
		if got := (writ.ResourceID{Project: project, Kind: tt.kind, Name: "web-0"}).HostName(); got != tt.want {
			t.Errorf("%s web-0: host name %s, want %s", tt.kind, got, tt.want)
		}
	}
}

func TestHostNamesOfDifferentKindsDiffer(t *testing.T) {
	kinds := map[byte]string{}
	for name, kind := range constants(t, "resource.go", "ResourceKind") {
		if other, ok := kinds[kind[0]]; ok {
			t.Errorf("%s and %s begin with the same letter, which host names use to tell kinds apart", name, other)
		}
		kinds[kind[0]] = name
	}
	if len(kinds) == 0 {
		t.Fatal("no kinds found")
	}
}

// Linux limits the name of a network interface to 15 bytes. Names on hosts must also be safe in paths and shells.
func TestHostNameFitsAnInterface(t *testing.T) {
	testenv.CheckProperty(t, func(t *rapid.T) {
		r := writ.ResourceID{
			Project: writ.ProjectID(rapid.String().Draw(t, "project")),
			Kind:    writ.KindNetwork,
			Name:    rapid.String().Draw(t, "name"),
		}
		if got := r.HostName(); len(got) > 15 || !writ.ValidName(got) {
			t.Fatalf("%#v: host name %q", r, got)
		}
	})
}

func TestDigestTextRoundTrip(t *testing.T) {
	testenv.CheckProperty(t, func(t *rapid.T) {
		want := writ.DigestOf(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		got, err := writ.ParseDigest(want.String())
		if err != nil || got != want {
			t.Fatalf("ParseDigest(%s) = %s, %v", want, got, err)
		}
	})
}

func TestDigestHasOneSpelling(t *testing.T) {
	good := writ.DigestOf(nil).String()
	for _, bad := range []string{"", good[:63], good + "0", strings.ToUpper(good), "g" + good[1:], " " + good[1:]} {
		if d, err := writ.ParseDigest(bad); err == nil || !d.IsZero() {
			t.Errorf("ParseDigest(%q) = %s, %v, want an error", bad, d, err)
		}
	}
}

func TestNames(t *testing.T) {
	for _, tt := range []struct {
		name string
		want bool
	}{
		{"a", true},
		{"0", true},
		{"web-0", true},
		{"a-", true},
		{strings.Repeat("a", 63), true},
		{"", false},
		{"-a", false},
		{"Web", false},
		{"web_0", false},
		{"web.0", false},
		{"wéb", false},
		{"web\n", false},
		{"../a", false},
		{strings.Repeat("a", 64), false},
	} {
		if got := writ.ValidName(tt.name); got != tt.want {
			t.Errorf("ValidName(%q) = %v", tt.name, got)
		}
	}
}

func TestUUIDsAreValidDifferentAndOfVersion7(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id := writ.NewUUID()
		if !writ.ValidUUID(id) || seen[id] || id[14] != '7' || !strings.ContainsRune("89ab", rune(id[19])) {
			t.Fatalf("NewUUID = %s", id)
		}
		seen[id] = true
	}
	for _, bad := range []string{"", strings.ToUpper("0192f6c2-0000-7000-8000-00000000000a"), "0192f6c2000070008000000000000001", "0192f6c2-0000-7000-8000-000000000001\n"} {
		if writ.ValidUUID(bad) {
			t.Errorf("ValidUUID(%q) = true", bad)
		}
	}
}

func TestRunIDsHaveOneForm(t *testing.T) {
	good := writ.RunIDOf(writ.Digest{})
	if !good.Valid() {
		t.Errorf("%q is not valid", good)
	}
	for _, bad := range []writ.RunID{"", good[1:], good + "a", "0" + good[1:], "A" + good[1:], good + "\n"} {
		if bad.Valid() {
			t.Errorf("%q is valid", bad)
		}
	}
}
