package transfer

import (
	"path/filepath"
	"testing"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/btrfs"
	"writ/sal/btrfs/btrfstest"
)

// The project has too little quota left, or a disk is too small for the archive or for the volume made of it. No data
// is left.
func TestCopyRespectsTheProjectQuota(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		open func(t *testing.T) (dir string, trees openTrees)
		code writ.Code
	}{
		"project": {func(t *testing.T) (string, openTrees) {
			return btrfstest.NewHosts(t).New(t), func(dir string, _ func(string)) sal.Trees {
				return btrfs.New(btrfs.Config{Dir: dir, ProjectBytes: func(writ.ProjectID) int64 { return 4 << 20 }})
			}
		}, writ.CodeQuotaExceeded},
		"archive": {func(t *testing.T) (string, openTrees) {
			return testenv.NewDisk(t, filepath.Join(t.TempDir(), "disk"), 12).Dir, kinds["directory"]
		}, writ.CodeDiskFull},
		"volume": {func(t *testing.T) (string, openTrees) {
			return testenv.NewDisk(t, filepath.Join(t.TempDir(), "disk"), 28).Dir, kinds["directory"]
		}, writ.CodeDiskFull},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, _ := plain(t)
			from.made("data", 16)
			from.give(nil)
			dir, trees := tt.open(t)
			to := from.node(t, "n2", filepath.Join(dir, "n2"), trees)
			_, err := to.do(t.Context(), "volume.copy", "copy", copies("data"), to.origin(from, "data", nil))
			if writ.CodeOf(err) != tt.code {
				t.Errorf("%s (%v), want %s", writ.CodeOf(err), err, tt.code)
			}
			from.clean()
			to.clean()
			if all, err := to.driver.List(t.Context()); err != nil || len(all) != 0 {
				t.Errorf("%v, %v are left", all, err)
			}
			if all, err := to.driver.Trees.List(t.Context()); err != nil || len(all) != 0 {
				t.Errorf("the trees %v, %v are left", all, err)
			}
		})
	}
}
