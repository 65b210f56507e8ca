package containerd

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
	"writ/sal/saltest"
)

// BenchmarkCreate makes and starts containers one by one, and compares with `ctr run` of the same image on the same
// daemon, also with a seccomp filter and a log. Deletion is not counted.
func BenchmarkCreate(b *testing.B) {
	ctr := testenv.Need(b, "ctr")
	h := newFixture(b, "")
	h.must("container.create", "holder", map[string]any{"image": "busybox"}) // keeps the image imported
	defer h.must("container.delete", "holder", nil)
	all, err := h.driver.client.ImageService().List(h.driver.in(b.Context()))
	if err != nil || len(all) != 1 {
		b.Fatal(all, err)
	}
	b.Run("writ", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			name := fmt.Sprintf("c-%d", i)
			h.must("container.create", name, map[string]any{"image": "busybox"})
			b.StopTimer()
			h.must("container.delete", name, nil)
			b.StartTimer()
		}
	})
	b.Run("ctr", func(b *testing.B) {
		run := func(args ...string) {
			if said, err := exec.Command(ctr, append([]string{"-a", h.daemon.Address, "-n", h.driver.namespace()}, args...)...).CombinedOutput(); err != nil {
				b.Fatalf("ctr: %v\n%s", err, said)
			}
		}
		j := &job{Driver: h.driver, daemon: h.driver.client, Request: sal.Request{Resource: saltest.Resource(writ.KindContainer, "ctr"), Progress: func(string) {}}}
		for i := 0; b.Loop(); i++ {
			name := fmt.Sprintf("ctr-%d", i)
			run("run", "--detach", "--snapshotter", "overlayfs", "--seccomp", "--log-uri", "file://"+filepath.Join(h.host, name), all[0].Name, name)
			b.StopTimer()
			if err := j.discard(h.driver.in(context.WithoutCancel(b.Context())), nil, name, 0); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
}
