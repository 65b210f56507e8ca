package runtimespec

import (
	"bytes"
	"io/fs"
	"runtime"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"writ"
)

// The user is the one that the image names, with the groups that list it in the files of the image.
//
// Promise: Networks and containers: A container runs as the user and groups that its image names, and its root can
// switch to another user.
// How: The files of the image define users; the user namespace allows setgroups(2).
// Also: TestContainerRunsAsItsImageDefines, TestRootInAContainerHasItsOwnUser.
func TestContainerHasUserOfItsImage(t *testing.T) {
	t.Parallel()
	layer := fstest.MapFS{
		"etc/passwd": {Data: []byte("root:x:0:0::/:/bin/sh\nweb:x:33:34::/:/bin/sh\n")},
		"etc/group":  {Data: []byte("root:x:0:root\nweb:x:34:\ndisk:x:6:root,web\nlog:x:7:web\n")},
	}
	for _, tt := range []struct {
		named string
		layer fstest.MapFS
		want  *specs.User // nil if it is rejected
	}{
		{"", layer, &specs.User{AdditionalGids: []uint32{0, 6}}},
		{"root", layer, &specs.User{AdditionalGids: []uint32{0, 6}}},
		{"web", layer, &specs.User{UID: 33, GID: 34, AdditionalGids: []uint32{34, 6, 7}}},
		{"33", layer, &specs.User{UID: 33, GID: 34, AdditionalGids: []uint32{34, 6, 7}}},
		{"web:log", layer, &specs.User{UID: 33, GID: 7, AdditionalGids: []uint32{6, 7}}},
		{"web:1000", layer, &specs.User{UID: 33, GID: 1000, AdditionalGids: []uint32{1000, 6, 7}}},
		{"1000", layer, &specs.User{UID: 1000, AdditionalGids: []uint32{0}}},
		{"1000:1000", layer, &specs.User{UID: 1000, GID: 1000, AdditionalGids: []uint32{1000}}},
		{"1000:web", layer, &specs.User{UID: 1000, GID: 34, AdditionalGids: []uint32{34}}},
		{"", nil, &specs.User{AdditionalGids: []uint32{0}}},
		{"33", nil, &specs.User{UID: 33, AdditionalGids: []uint32{0}}},
		{"web", nil, nil},
		{"nobody", layer, nil},
		{"web:nobody", layer, nil},
		{"web:", layer, &specs.User{UID: 33, GID: 34, AdditionalGids: []uint32{34, 6, 7}}},
		{":7", layer, &specs.User{GID: 7, AdditionalGids: []uint32{7, 6}}},
		{":", layer, &specs.User{AdditionalGids: []uint32{0, 6}}},
		{"", fstest.MapFS{"etc/passwd": {Mode: fs.ModeNamedPipe}}, nil},
		{"", fstest.MapFS{"etc/group": {Mode: fs.ModeDevice}}, nil},
		{"big", fstest.MapFS{"etc/passwd": {Data: []byte("big:x:4294967296:0::/:/bin/sh\n")}}, nil},
		{"web:web:web", layer, nil},
		{"-1", layer, nil},
		{"2147483648", layer, nil},
		{"99999999999999999999", layer, nil},
		{"33:4294967296", layer, nil},
	} {
		got, err := userOfImage(regularFiles{tt.layer}, tt.named)
		if tt.want == nil {
			if err == nil || writ.CodeOf(badUser(tt.named, err)) != writ.CodeArgumentsInvalid {
				t.Errorf("the user %q is %+v, %v", tt.named, got, err)
			}
			continue
		}
		if diff := cmp.Diff(*tt.want, got); diff != "" || err != nil {
			t.Errorf("the user %q: %v %s", tt.named, err, diff)
		}
	}
}

// The author of an image chooses the files that list its users.
func TestUsersOfImageTakeLittleMemory(t *testing.T) {
	members := bytes.Repeat([]byte("a:x:7:root\n"), maxGroups)
	for name, tt := range map[string]struct {
		passwd, group []byte
		user          string
		valid         bool
	}{
		"users":       {bytes.Repeat([]byte(":\n"), 1<<20), nil, "0", true},
		"groups":      {nil, bytes.Repeat([]byte("a\n"), 1<<20), "0:a", true},
		"memberships": {[]byte("root:x:0:0::/:/bin/sh\n"), members, "root", false},
		"fewer":       {[]byte("root:x:0:0::/:/bin/sh\n"), members[:len(members)-11], "root", true},
	} {
		layer := regularFiles{fstest.MapFS{"etc/passwd": {Data: tt.passwd}, "etc/group": {Data: tt.group}}}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		got, err := userOfImage(layer, tt.user)
		runtime.ReadMemStats(&after)
		if (err == nil) != tt.valid || len(got.AdditionalGids) > maxGroups {
			t.Errorf("%s: %d groups, %v", name, len(got.AdditionalGids), err)
		}
		if taken := int64(after.HeapSys - before.HeapSys); taken > 64<<20 {
			t.Errorf("%s took %d MiB of memory", name, taken>>20)
		}
	}
}

func TestEnvironmentOmitsBrokenVariables(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ image, want []string }{
		{nil, []string{SearchPath}},
		{[]string{"A=b", "BARE", "=x", "", "C==d "}, []string{SearchPath, "A=b", "C==d "}},
		{[]string{"A=b", "PATH=/bin", "PATH="}, []string{"PATH=", "A=b"}},
	} {
		if got := environment(tt.image); !slices.Equal(got, tt.want) {
			t.Errorf("environment(%q) = %q, want %q", tt.image, got, tt.want)
		}
	}
}
