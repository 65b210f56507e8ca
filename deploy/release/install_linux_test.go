package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"writ/internal/test/testenv"
)

// host is a disposable copy of this machine: an overlay over its files. A script that records its arguments replaces
// systemctl.
type host struct {
	t      *testing.T
	dir    string
	script string // prefix of each command
}

func newHost(t *testing.T) *host {
	t.Helper()
	testenv.NeedRoot(t)
	h := &host{t: t, dir: t.TempDir()}
	for _, name := range []string{"upper", "work", "root", "upper/usr", "upper/usr/bin"} {
		if err := os.MkdirAll(filepath.Join(h.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	recorder := "#!/bin/sh\necho \"$@\" >>/var/tmp/asked\n"
	if err := os.WriteFile(filepath.Join(h.dir, "upper/usr/bin/systemctl"), []byte(recorder), 0o755); err != nil {
		t.Fatal(err)
	}
	// /var/tmp of the copy contains the record of systemctl and the packages.
	h.script = fmt.Sprintf("mount -t overlay overlay -o lowerdir=/,upperdir=%[1]s/upper,workdir=%[1]s/work %[1]s/root && cd %[1]s/root && "+
		"mount -t tmpfs tmpfs run && mkdir -p run/systemd/system && mount -t proc proc proc && mount --bind /dev dev && exec chroot . sh -c \"$1\"", h.dir)
	return h
}

// do runs a command on the host and returns its output.
func (h *host) do(command string) string {
	h.t.Helper()
	c := exec.CommandContext(h.t.Context(), "unshare", "--mount", "sh", "-ec", h.script, "sh", command)
	c.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C"}
	text, err := c.CombinedOutput()
	if err != nil {
		h.t.Fatalf("%s: %v\n%s", command, err, text)
	}
	return strings.TrimSpace(string(text))
}

// asked returns the calls of systemctl since the previous call.
func (h *host) asked() string {
	h.t.Helper()
	return h.do("cat /var/tmp/asked; rm -f /var/tmp/asked")
}

// give builds a package of a version and copies it to the host. It returns its path there.
func (h *host) give(version, format string) string {
	h.t.Helper()
	s := fixture(h.t, "#!/bin/sh\necho version "+version+" # ")
	s.version = version
	name := "writ-" + version + "." + format
	if err := os.MkdirAll(filepath.Join(h.dir, "upper/var/tmp"), 0o777); err != nil {
		h.t.Fatal(err)
	}
	if err := s.hostPackage(s.built.programs[0], format, filepath.Join(h.dir, "upper/var/tmp", name)); err != nil {
		h.t.Fatal(err)
	}
	return "/var/tmp/" + name
}

const units = "writ-coord.service writ-supervisor.service writ-runner.service writ-boot.service"

// Leave the machine's other packages and its manual page index alone.
const dpkgInstall = "dpkg --install --force-depends --force-unsafe-io --no-triggers"

// Promise: Releases and CI: A package installs, upgrades and uninstalls as expected: it starts no service, keeps
// changed settings, restarts running services and keeps data.
// How: `deploy/release`, with nfpm; the test installs on a copy of the machine's files.
// Also: TestAnArchiveHasAllThatAPersonNeeds, TestAnImageHasAUserAndOneProgram
func TestAPackageIsInstalledUpgradedAndRemoved(t *testing.T) {
	for _, system := range []struct{ tool, format, install, upgrade, remove string }{
		{"dpkg", "deb", dpkgInstall, dpkgInstall, "dpkg --no-triggers --remove writ"},
		{"rpm", "rpm", "rpm --install --nodeps --dbpath /var/lib/rpm", "rpm --upgrade --nodeps --dbpath /var/lib/rpm", "rpm --erase --dbpath /var/lib/rpm writ"},
	} {
		t.Run(system.format, func(t *testing.T) {
			t.Parallel()
			testenv.Need(t, system.tool)
			analyze := testenv.Need(t, "systemd-analyze")
			h := newHost(t)

			h.do(system.install + " " + h.give("v1.2.3-rc.1", system.format))
			for command, want := range map[string]string{
				"writ": "version v1.2.3-rc.1",
				"stat -c '%A %U %G' /usr/bin/writ /etc/writ /etc/writ/runner.yaml": "-rwxr-xr-x root root\ndrwxr-x--- root writ\n-rw-r----- root writ",
				"getent passwd writ-coord | cut -d: -f6,7":                         "/nonexistent:/usr/sbin/nologin",
				"id -nG writ-supervisor; id -nG writ-boot":                         "writ-supervisor writ\nwrit-boot writ",
				"grep -h ^User= /usr/lib/systemd/system/writ-*.service":            "User=writ-boot\nUser=writ-coord\nUser=writ-supervisor",
				"gzip -dc /usr/share/man/man1/writ.1.gz":                           ".TH writ 1",
				// It also prints lines about units of the host.
				analyze + " verify --man=no /usr/lib/systemd/system/writ-*.service 2>&1 | grep writ || true": "",
				"grep -h ^ExecStart= /usr/lib/systemd/system/writ-runner.service":                            "ExecStart=/usr/bin/writ runner --config /etc/writ/runner.yaml",
			} {
				if text := h.do(command); text != want {
					t.Errorf("%s prints %q, want %q", command, text, want)
				}
			}
			if asked := h.asked(); asked != "daemon-reload\ntry-restart "+units {
				t.Errorf("the installation asked systemctl %q", asked)
			}

			h.do("echo 'slots: 3' >>/etc/writ/runner.yaml")
			h.do(system.upgrade + " " + h.give("v1.2.3", system.format)) // a release candidate precedes its release
			if text := h.do("writ; tail -n 1 /etc/writ/runner.yaml"); text != "version v1.2.3\nslots: 3" {
				t.Errorf("after the upgrade: %q", text)
			}
			if asked := h.asked(); !strings.Contains(asked, "try-restart "+units) || strings.Contains(asked, "disable") {
				t.Errorf("the upgrade asked systemctl %q", asked)
			}

			h.do("mkdir -p /var/lib/writ/node && " + system.remove)
			if text := h.do("ls -d /usr/bin/writ /usr/lib/systemd/system/writ-* /var/lib/writ/node /etc/writ/runner.yaml* 2>/dev/null; getent passwd writ-coord | cut -d: -f1; true"); !strings.HasPrefix(text, "/etc/writ/runner.yaml") ||
				!strings.HasSuffix(text, "\n/var/lib/writ/node\nwrit-coord") || strings.Contains(text, "/usr/") {
				t.Errorf("the removal leaves %q", text)
			}
			if asked := h.asked(); !strings.HasPrefix(asked, "disable --now "+units) {
				t.Errorf("the removal asked systemctl %q", asked)
			}
		})
	}
}

// TestUpgradeGivesEachDaemonItsOwnUser upgrades twice from a version with one user for all daemons.
//
// Promise: Failures: A coordinator, supervisor or boot server reads no data of another daemon on its host.
// How: Units and packages use one system user each; upgrades change the owner of the files.
func TestUpgradeGivesEachDaemonItsOwnUser(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "dpkg")
	h := newHost(t)
	h.do(`useradd --system --user-group --home-dir /nonexistent --no-create-home writ
		groupadd -f redis; usermod -aG redis writ
		for role in coord supervisor; do
			install -d -m 0700 -o writ -g writ /var/lib/writ-$role /var/lib/writ-$role/rosters
			install -m 0600 -o writ -g writ /dev/null /var/lib/writ-$role/secret.key
		done
		install -d -m 2750 -o writ -g redis /var/lib/writ-redis
		install -m 0640 -o writ -g redis /dev/null /var/lib/writ-redis/redis.pem
		echo root >/etc/of-root; ln -s /etc/of-root /var/lib/writ-coord/link; chown -h writ:writ /var/lib/writ-coord/link
		install -o root -m 0600 /dev/null /var/lib/writ-coord/of-root
		install -d /etc/writ; install -m 0400 -o writ /dev/null /etc/writ/dc1.token; install -m 0400 -o writ /dev/null /etc/writ/unknown
		for name in dc1 'my * key' 'my' '$(touch pwned)' db tls.key old.key of-boot; do install -m 0400 -o writ /dev/null "/etc/writ/$name"; done
		echo 'join: @/etc/writ/dc1.token # of us' >/etc/writ/supervisor.yaml
		printf 'a: "@/etc/writ/my * key"\nb: "/etc/writ/$(touch pwned)"\nc: /mnt/etc/writ/db\n' >/etc/writ/coord.yaml
		printf '# tls-key: /etc/writ/tls.key\nd: "a # b" # was /etc/writ/old.key\n' >>/etc/writ/coord.yaml
		printf 'a: ["x # y", /etc/writ/of-boot]\n' >/etc/writ/boot.yaml`)
	for range 2 {
		h.do(dpkgInstall + " --force-confold " + h.give("v1.2.3", "deb"))
		const owners = `stat -c '%U:%G %a %n' /var/lib/writ-*/* /var/lib/writ-* /etc/of-root /etc/writ/dc1.token /etc/writ/unknown /etc/writ/dc1 /etc/writ/my*key /etc/writ/my '/etc/writ/$(touch pwned)' /etc/writ/db /etc/writ/*.key /etc/writ/of-boot`
		want := `writ-coord:writ-coord 777 /var/lib/writ-coord/link
root:root 600 /var/lib/writ-coord/of-root
writ-coord:writ-coord 700 /var/lib/writ-coord/rosters
writ-coord:writ-coord 600 /var/lib/writ-coord/secret.key
writ-supervisor:redis 640 /var/lib/writ-redis/redis.pem
writ-supervisor:writ-supervisor 700 /var/lib/writ-supervisor/rosters
writ-supervisor:writ-supervisor 600 /var/lib/writ-supervisor/secret.key
writ-coord:writ-coord 700 /var/lib/writ-coord
writ-supervisor:redis 2750 /var/lib/writ-redis
writ-supervisor:writ-supervisor 700 /var/lib/writ-supervisor
root:root 644 /etc/of-root
writ-supervisor:root 400 /etc/writ/dc1.token
writ:root 400 /etc/writ/unknown
writ:root 400 /etc/writ/dc1
writ-coord:root 400 /etc/writ/my * key
writ:root 400 /etc/writ/my
writ-coord:root 400 /etc/writ/$(touch pwned)
writ:root 400 /etc/writ/db
writ:root 400 /etc/writ/old.key
writ:root 400 /etc/writ/tls.key
writ-boot:root 400 /etc/writ/of-boot`
		if got := h.do(owners); got != want {
			t.Errorf("the files have the owners\n%s\nwant\n%s", got, want)
		}
	}
	for user, file := range map[string]string{"writ-coord": "/var/lib/writ-supervisor/secret.key", "writ-supervisor": "/var/lib/writ-coord/secret.key", "writ-boot": "/var/lib/writ-coord/secret.key"} {
		if got := h.do("setpriv --reuid " + user + " --regid " + user + " --init-groups cat " + file + " 2>&1 || true"); !strings.Contains(got, "Permission denied") {
			t.Errorf("%s reads %s: %q", user, file, got)
		}
		if got := h.do("setpriv --reuid " + user + " --regid " + user + " --init-groups cat /etc/writ/supervisor.yaml >/dev/null && echo reads"); user == "writ-supervisor" && got != "reads" {
			t.Errorf("%s does not read its settings: %q", user, got)
		}
	}
	if groups := h.do("id -nG writ-supervisor; id -nG writ-coord"); groups != "writ-supervisor writ redis\nwrit-coord writ" && groups != "writ-supervisor redis writ\nwrit-coord writ" {
		t.Errorf("the groups are %q", groups)
	}
}
