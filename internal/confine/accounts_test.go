package confine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"writ/internal/confine"
	"writ/internal/test/testenv"
)

func TestSystemUserRangesAreRejected(t *testing.T) {
	for text, ok := range map[string]bool{
		"200000-265535": true, fmt.Sprintf("%d-%d", confine.DefaultFirst, confine.DefaultLast): true, "66000-4294967294": true,
		"": false, "none": false, "200000": false, "200000-": false, "-5-10": false, "200000-200100": false, "265535-200000": false,
		"0-65533": false, "500-10000": false, "60000-70000": false, "200000-4294967295": false, "200000-99999999999": false,
	} {
		a, err := confine.ParseAccounts(text)
		if (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
		if err == nil && (a.First != a.SharedGroup+1 || a.Has(a.SharedGroup) || !a.Has(a.First) || !a.Has(a.Last) || a.Has(a.Last+1)) {
			t.Errorf("%q is %+v", text, a)
		}
	}
}

func TestHalvesPartitionTheUsers(t *testing.T) {
	testenv.CheckProperty(t, func(t *rapid.T) {
		first := rapid.Uint32Range(66000, 1<<31).Draw(t, "first")
		last := first + rapid.Uint32Range(1024, 1<<20).Draw(t, "more")
		a, err := confine.ParseAccounts(fmt.Sprintf("%d-%d", first, last))
		if err != nil {
			t.Fatal(err)
		}
		low, up := a.Halves()
		if low.First != a.First || low.Last+1 != up.First || up.Last != a.Last || low.Last < low.First || up.Last < up.First || low.SharedGroup != up.SharedGroup {
			t.Fatalf("%+v and %+v of %+v", low, up, a)
		}
	})
}

func TestAUserIsTheSameOneUnlessItIsTaken(t *testing.T) {
	testenv.CheckProperty(t, func(t *rapid.T) {
		a := &confine.Accounts{SharedGroup: 99, First: 100, Last: 100 + rapid.Uint32Range(0, 20).Draw(t, "more")}
		taken := map[uint32]bool{}
		is := func(user uint32) bool { return taken[user] }
		for i := range int(a.Last-a.First) + 1 {
			name := rapid.StringN(1, 10, -1).Draw(t, "name")
			user, err := a.Choose(name, is)
			again, _ := a.Choose(name, is)
			if err != nil || user != again || taken[user] || !a.Has(user) {
				t.Fatalf("%d. %q gets %d and then %d, %v", i, name, user, again, err)
			}
			taken[user] = true
		}
		if user, err := a.Choose("one more", is); err == nil {
			t.Fatalf("got %d from an empty range", user)
		}
	})
}

func TestOnlyTheUserCanPassTheDirectories(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives directories to groups")
	}
	top := filepath.Join(t.TempDir(), "top")
	dir, beside := filepath.Join(top, "a", "b"), filepath.Join(top, "a", "c")
	for _, d := range []string{dir, beside} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	a := &confine.Accounts{SharedGroup: 2020000000, First: 2020000001, Last: 2020001000, Top: top}
	for range 2 {
		if err := a.Lead(dir); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]os.FileMode{top: 0o710, filepath.Join(top, "a"): 0o710, dir: 0o710, beside: 0o700, filepath.Dir(top): 0o755} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has %v, want %v: %v", path, info.Mode(), want, err)
		}
	}
	if err := a.Lead(filepath.Dir(top)); err == nil {
		t.Error("it led away from the top")
	}
	link := filepath.Join(top, "link")
	if err := os.Symlink("/", link); err != nil {
		t.Fatal(err)
	}
	if err := a.Lead(filepath.Join(link, "tmp")); err == nil {
		t.Error("a link led away")
	}
	if err := a.Passable(); err == nil {
		t.Errorf("%s is passable through a closed directory", top)
	}
	for _, d := range []string{filepath.Dir(top), filepath.Dir(filepath.Dir(top))} {
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Passable(); err != nil {
		t.Error(err)
	}
}

func TestUserNumbersInUseAreDetected(t *testing.T) {
	if err := (&confine.Accounts{SharedGroup: 2020000000, First: 2020000001, Last: 2020001000}).Strangers(); err != nil {
		t.Errorf("unused numbers: %v", err)
	}
	if err := (&confine.Accounts{SharedGroup: 0, First: 1, Last: 1000}).Strangers(); err == nil { // root, at least
		t.Error("the numbers of the system count as unused")
	}
}

// A container may have no more numbers than its users need.
func TestUnmappedNumbersAreDetected(t *testing.T) {
	a := &confine.Accounts{SharedGroup: 2010000000, First: 2010000001, Last: 2010065535}
	for text, want := range map[string]bool{
		"         0          0 4294967295\n":        true,
		"         0     100000      65536\n":        false,
		"0 1000 1\n1 100000 65536\n":                false,
		"0 100000 65536\n2010000000 300000 65536\n": true,
		"0 100000 65536\n2010000000 300000 65535\n": false,
		"no map\n": false,
	} {
		if got := a.MappedForTest(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}
