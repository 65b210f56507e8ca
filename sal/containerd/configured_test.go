package containerd

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// The user of a container is the one that its image names, with the groups that list it, as the files of the image say and no other.
func TestTheUserOfAContainerIsThatOfItsImage(t *testing.T) {
	t.Parallel()
	layer := fstest.MapFS{
		"etc/passwd": {Data: []byte("root:x:0:0::/:/bin/sh\nweb:x:33:34::/:/bin/sh\n")},
		"etc/group":  {Data: []byte("root:x:0:root\nweb:x:34:\ndisk:x:6:root,web\nlog:x:7:web\n")},
	}
	for _, tt := range []struct {
		named string
		layer fstest.MapFS
		want  *specs.User // nil if it is refused
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
		{"web:web:web", layer, nil},
		{"-1", layer, nil},
		{"2147483648", layer, nil},
		{"99999999999999999999", layer, nil},
		{"33:4294967296", layer, nil},
	} {
		got, err := userOfImage(tt.layer, tt.named)
		if tt.want == nil {
			if err == nil {
				t.Errorf("the user %q is %+v", tt.named, got)
			}
			continue
		}
		if diff := cmp.Diff(*tt.want, got); diff != "" || err != nil {
			t.Errorf("the user %q: %v %s", tt.named, err, diff)
		}
	}
}
