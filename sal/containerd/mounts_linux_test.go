package containerd

import (
	"slices"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"writ"
)

func TestMountsAreSortedByDepth(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ listed, want []string }{
		{[]string{"/a/b", "/a"}, []string{"/a", "/a/b"}},
		{[]string{"/a", "/a/b"}, []string{"/a", "/a/b"}},
		{[]string{"/etc/ssl/private", "/etc", "/var", "/etc/hosts"}, []string{"/etc", "/var", "/etc/hosts", "/etc/ssl/private"}},
		// Equal depth: as listed.
		{[]string{"/b/x/y", "/b/x", "/a/x", "/b", "/a"}, []string{"/b", "/a", "/b/x", "/a/x", "/b/x/y"}},
	} {
		var mounts []specs.Mount
		for _, to := range tt.listed {
			mounts = append(mounts, specs.Mount{Destination: to})
		}
		var got []string
		for _, m := range byDepth(mounts) {
			got = append(got, m.Destination)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q is mounted as %q, want %q", tt.listed, got, tt.want)
		}
	}
}

func TestVolumesKeepOffWrittenFiles(t *testing.T) {
	t.Parallel()
	for to, ok := range map[string]bool{
		"/etc": true, "/etc/hosts.d": true, "/etc/hosts": false, "/etc/hosts/a": false, "/etc/resolv.conf": false, "/proc/self": false, "/dev/shm": true,
	} {
		if err := mountable(to); (err == nil) != ok || err != nil && writ.CodeOf(err) != writ.CodeArgumentsInvalid {
			t.Errorf("a volume at %s: %v", to, err)
		}
	}
}

func TestNestedVolumesHideNoContent(t *testing.T) {
	b := newFixture(t, "")
	nested := mount("logs", "/srv/app/logs")
	spec := map[string]any{"image": "busybox", "command": waits, "volumes": []any{nested, mount("app", "/srv/app"), mount("config", "/etc")}}
	b.must("container.create", "web", spec)
	b.sh("web", "echo one >/srv/app/logs/1; echo two >/srv/app/2; echo three >/etc/3")
	for name, line := range map[string]string{"logs": "cat /d/1", "app": "cat /d/2; ls /d/logs", "config": "cat /d/3"} {
		want := map[string]string{"logs": "one\n", "app": "two\n", "config": "three\n"}[name]
		b.must("container.create", "look", map[string]any{"image": "busybox", "command": waits, "volumes": []any{mount(name, "/d")}})
		if got := b.sh("look", line); got != want {
			t.Errorf("the volume %s has %q, want %q", name, got, want)
		}
		b.must("container.delete", "look", nil)
	}
	if got := b.sh("web", "head -n 1 /etc/hosts"); got != "127.0.0.1 localhost\n" {
		t.Errorf("the volume at /etc hides /etc/hosts: %q", got)
	}

	fixed := func(volume, path string) map[string]any {
		m := mount(volume, path)
		m["read_only"] = true
		return m
	}
	for _, volumes := range [][]any{{fixed("empty", "/etc")}, {mount("logs", "/srv/app/logs"), fixed("empty", "/srv/app")}} {
		_, err := b.do("container.create", "fixed", map[string]any{"image": "busybox", "command": waits, "volumes": volumes})
		if writ.CodeOf(err) != writ.CodeResourceConflict {
			t.Errorf("a mount point in a read-only volume: %v", err)
		}
	}
	b.must("container.create", "fixed", map[string]any{"image": "busybox", "command": waits, "volumes": []any{nested, fixed("app", "/srv/app"), fixed("config", "/etc")}})
	if got := b.sh("fixed", "head -n 1 /etc/hosts; cat /srv/app/logs/1; touch /srv/app/x 2>&- || echo no"); got != "127.0.0.1 localhost\none\nno\n" {
		t.Errorf("below read-only volumes: %q", got)
	}
	for _, name := range []string{"web", "fixed"} {
		b.must("container.delete", name, nil)
	}
}
