package runnerd

import (
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"writ"
	"writ/sal"
	"writ/sal/image"
)

// TestImagesComeFromTheOperatorsSources checks that images come only from directories and servers that the operator
// allows.
func TestImagesComeFromTheOperatorsSources(t *testing.T) {
	data, images := t.TempDir(), t.TempDir()
	link := filepath.Join(images, "link")
	if err := os.Symlink(filepath.Dir(data), link); err != nil {
		t.Fatal(err)
	}
	opened := func(host HostConfig) (*image.Driver, error) {
		t.Helper()
		all, err := openDrivers(t.Context(), driverConfig{Choice: DriversAuto, Dir: hostDir(data), Host: host, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(all.all, func(d sal.Driver) bool { _, ok := d.(*image.Driver); return ok })
		return all.all[i].(*image.Driver), all.close()
	}
	d, err := opened(HostConfig{})
	if err != nil || len(d.Dirs) > 0 || len(d.Allow) > 0 || d.Log == nil {
		t.Errorf("defaults = %v and %v, %v", d.Dirs, d.Allow, err)
	}
	d, err = opened(HostConfig{ImageDirs: []string{images + "/"}, ImageAllow: []string{"10.1.2.3/16", "fd00::7"}})
	want := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::7/128")}
	if err != nil || !slices.Equal(d.Dirs, []string{images}) || !slices.Equal(d.Allow, want) || !strings.Contains(d.Describe().Detail, images) {
		t.Errorf("it has %v and %v, %v", d.Dirs, d.Allow, err)
	}
	for _, host := range []HostConfig{
		{ImageDirs: []string{"images"}}, {ImageDirs: []string{"/"}}, {ImageDirs: []string{data}}, {ImageDirs: []string{filepath.Dir(data)}}, {ImageDirs: []string{link}},
		{ImageAllow: []string{"10.0.0.0/33"}}, {ImageAllow: []string{"mirror"}},
	} {
		if _, err := opened(host); writ.CodeOf(err) != writ.CodeUsage || writ.AsError(err).Hint == "" {
			t.Errorf("%v, %v: %v", host.ImageDirs, host.ImageAllow, err)
		}
		if _, err := HostNeeds(t.Context(), data, host); writ.CodeOf(err) != writ.CodeUsage {
			t.Errorf("doctor with %v, %v: %v", host.ImageDirs, host.ImageAllow, err)
		}
	}
}
