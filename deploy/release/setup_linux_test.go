package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"writ/internal/test/testenv"
)

// place is a file server on loopback that hosts a release.
type place struct {
	t   *testing.T
	dir string // of the served files
	url string

	mu    sync.Mutex
	asked []string // requested file names
}

// newPlace serves the archives and checksums of a release.
func newPlace(t *testing.T) *place {
	t.Helper()
	s := fixture(t, "#!/bin/sh\necho v1.2.3-rc.1 # ")
	p := &place{t: t, dir: s.out}
	for _, built := range s.built.programs {
		if err := s.archive(built, filepath.Join(p.dir, "writ_1.2.3-rc.1_"+built.OS+"_"+built.Arch+".tar.gz")); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.sums(); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

// ServeHTTP sends a file. Paths below private/ need a password, and transfers below half/ break off.
func (p *place) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked = append(p.asked, path.Base(r.URL.Path))
	p.mu.Unlock()
	if _, password, _ := r.BasicAuth(); strings.HasPrefix(r.URL.Path, "/private/") && password != "open sesame" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	data, err := os.ReadFile(filepath.Join(p.dir, path.Base(r.URL.Path)))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/half/") {
		_, _ = w.Write(data[:len(data)/2]) // the client may be gone
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(data)
}

// requests returns the requested files since the previous call.
func (p *place) requests() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.asked = nil }()
	return strings.Join(p.asked, " ")
}

// digest returns the SHA-256 of a file of the release.
func (p *place) digest(name string) string {
	p.t.Helper()
	data, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil {
		p.t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// job is a CI job with a home directory and some programs.
type job struct {
	t     *testing.T
	home  string
	shell []string
	env   []string
}

func newJob(t *testing.T, env ...string) *job {
	t.Helper()
	j := &job{t: t, home: t.TempDir(), shell: []string{"sh"}}
	j.program("uname", `[ "$1" = -s ] && echo Linux || echo x86_64`)
	if err := os.Mkdir(filepath.Join(j.home, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	j.env = append([]string{"HOME=" + j.home, "TMPDIR=" + filepath.Join(j.home, "tmp"), "PATH=" + filepath.Join(j.home, "bin") + ":" + filepath.Dir(testenv.Need(t, "curl")) + ":/usr/bin:/bin"}, env...)
	return j
}

// program adds a program to the PATH of the job.
func (j *job) program(name, script string) {
	j.t.Helper()
	if err := os.MkdirAll(filepath.Join(j.home, "bin"), 0o755); err != nil {
		j.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(j.home, "bin", name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		j.t.Fatal(err)
	}
}

// command prepares deploy/ci/writ-setup.sh in this job.
func (j *job) command(env ...string) (c *exec.Cmd, out, said *bytes.Buffer) {
	script, err := filepath.Abs("../ci/writ-setup.sh")
	if err != nil {
		j.t.Fatal(err)
	}
	c = exec.CommandContext(j.t.Context(), j.shell[0], append(j.shell[1:], script)...)
	out, said = new(bytes.Buffer), new(bytes.Buffer)
	c.Dir, c.Env, c.Stdout, c.Stderr = j.home, append(slices.Clone(j.env), env...), out, said
	return c, out, said
}

// setup installs writ. It returns the printed PATH and the messages.
func (j *job) setup(env ...string) (path, said string) {
	j.t.Helper()
	c, out, log := j.command(env...)
	if err := c.Run(); err != nil {
		j.t.Fatalf("%v\n%s", err, log)
	}
	return strings.TrimSpace(out.String()), log.String()
}

// refused runs a setup that must fail and returns its messages.
func (j *job) refused(env ...string) string {
	j.t.Helper()
	c, out, said := j.command(env...)
	if err := c.Run(); err == nil || out.Len() > 0 {
		j.t.Errorf("it ends with %v and prints the PATH %q", err, out)
	}
	return said.String()
}

// version runs the writ on a PATH.
func (j *job) version(path string) string {
	j.t.Helper()
	return strings.TrimSpace(command(j.t, j.home, "env", "PATH="+path, "sh", "-c", "command -v writ && writ"))
}

// kept lists the files of the cache and of the temporary directory.
func (j *job) kept() (names []string) {
	j.t.Helper()
	for _, top := range []string{filepath.Join(j.home, ".cache"), filepath.Join(j.home, "tmp")} {
		err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && !strings.HasSuffix(name, "/bin/writ") {
				names = append(names, d.Name())
			}
			return err
		})
		if err != nil && !os.IsNotExist(err) {
			j.t.Fatal(err)
		}
	}
	return names
}

const archiveHere = "writ_1.2.3-rc.1_linux_amd64.tar.gz"

// Promise: Releases and CI: A CI job uses only the writ release with the configured digest.
// How: Deploy/ci verifies the archive each time before it unpacks the program; a failed step leaves no file.
// Also: TestAJobGetsWritFromOneArchive, TestATamperedArchiveIsRefused, TestJobInstallsNothingElse,
// TestCancelledJobLeavesNothing, TestScripts/ci-setup
func TestAJobGetsWritFromARelease(t *testing.T) {
	testenv.Need(t, "busybox")
	for _, shell := range [][]string{{"sh"}, {"bash", "--posix"}, {"busybox", "sh"}} {
		t.Run(strings.Join(shell, " "), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			j := newJob(t, "WRIT_RELEASE="+p.url+"/1.2.3/", "WRIT_SHA256="+strings.ToUpper(p.digest(sumsName)))
			j.shell = shell
			found, said := j.setup()
			if version := j.version(found); !strings.HasPrefix(version, j.home+"/tmp/") || !strings.HasSuffix(version, "/bin/writ\nv1.2.3-rc.1") {
				t.Errorf("the job has %q; stderr: %s", version, said)
			}
			if asked := p.requests(); asked != sumsName+" "+archiveHere {
				t.Errorf("it asked for %q", asked)
			}
			if again, _ := j.setup(); again == found || !strings.HasSuffix(j.version(again), "v1.2.3-rc.1") || p.requests() != "" {
				t.Errorf("the second job asks the server again, or has the program of the first: %q", again)
			}
			if kept := j.kept(); !slices.Equal(kept, []string{sumsName, archiveHere}) && !slices.Equal(kept, []string{archiveHere, sumsName}) {
				t.Errorf("the cache has %q", kept)
			}
		})
	}
}

func TestAJobGetsWritFromOneArchive(t *testing.T) {
	p := newPlace(t)
	j := newJob(t, "WRIT_SHA256="+p.digest(archiveHere))
	if found, said := j.setup("WRIT_RELEASE=" + p.url + "/" + archiveHere); !strings.HasSuffix(j.version(found), "v1.2.3-rc.1") {
		t.Error(said)
	}
	// One URL has a signed query, another needs a password, which is not passed as an argument.
	if err := os.WriteFile(filepath.Join(j.home, ".netrc"), []byte("machine 127.0.0.1 login ci password \"open sesame\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	j.program("curl", `case "$*" in *signature*|*sesame*) exit 99;; esac; exec `+testenv.Need(t, "curl")+` "$@"`)
	for _, address := range []string{"/" + archiveHere + "?signature=abc", "/private/" + archiveHere} {
		if err := os.RemoveAll(filepath.Join(j.home, ".cache")); err != nil {
			t.Fatal(err)
		}
		if found, said := j.setup("WRIT_RELEASE=" + p.url + address); !strings.HasSuffix(j.version(found), "v1.2.3-rc.1") || strings.Contains(said, "signature") {
			t.Error(said)
		}
	}
}

// Another job of the runner may have put a program into a directory of the PATH. Its reported version is not trusted.
//
// Promise: Releases and CI: A job runs no writ that is on its PATH before the setup if it names a release.
// How: The setup always verifies an archive by its digest and puts its program first.
func TestSetupTrustsNoWritOnThePath(t *testing.T) {
	p := newPlace(t)
	j := newJob(t, "WRIT_RELEASE="+p.url, "WRIT_SHA256="+p.digest(sumsName))
	for _, version := range []string{"v1.2.2", "v1.2.3-rc.1"} {
		ran := filepath.Join(j.home, "ran")
		j.program("writ", "touch "+ran+"; echo "+version)
		found, said := j.setup()
		if _, err := os.Stat(ran); err == nil {
			t.Errorf("the setup ran the writ %s of the PATH", version)
		}
		if got := j.version(found); !strings.HasPrefix(got, j.home+"/tmp/") || !strings.HasSuffix(got, "v1.2.3-rc.1") {
			t.Errorf("with %s on the PATH, the job has %q: %s", version, got, said)
		}
	}
}

// An attacker with write access to the cache of a runner can neither replace a program of a job nor add one.
func TestCachedProgramsNeverRun(t *testing.T) {
	p := newPlace(t)
	hostile := "#!/bin/sh\necho stolen\n"
	digests := []string{p.digest(sumsName), p.digest(archiveHere)}
	attacks := map[string]func(t *testing.T, j *job, cache string){
		"programs in directories named bin": func(t *testing.T, j *job, cache string) {
			for _, digest := range digests {
				for _, name := range []string{"writ", "mktemp", "ssh-keygen", "tar", "curl"} {
					write(t, filepath.Join(cache, digest, "bin", name), hostile)
				}
			}
		},
		"other files": func(t *testing.T, j *job, cache string) {
			write(t, filepath.Join(cache, digests[0], sumsName), strings.Repeat("a", 64)+"  "+archiveHere+"\n")
			write(t, filepath.Join(cache, digests[1], archiveHere), hostile)
		},
		"an archive that changes after its digest was computed": func(t *testing.T, j *job, cache string) {
			kept := filepath.Join(cache, digests[1], archiveHere)
			honest, err := os.ReadFile(kept)
			if err != nil {
				t.Fatal(err)
			}
			write(t, kept, string(honest))
			j.program("sha256sum", "/usr/bin/sha256sum; echo broken >"+kept)
		},
		"links to a directory of the attacker": func(t *testing.T, j *job, cache string) {
			away := t.TempDir()
			for _, digest := range digests {
				if err := os.Rename(filepath.Join(cache, digest), filepath.Join(away, digest)); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(filepath.Join(away, digest), filepath.Join(cache, digest)); err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(away, digest, "bin", "ssh-keygen"), hostile)
			}
		},
		"directories in place of files": func(t *testing.T, j *job, cache string) {
			if err := os.RemoveAll(filepath.Join(cache, digests[1])); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(cache, digests[1], archiveHere, "writ"), hostile)
		},
		"a file in place of the cache": func(t *testing.T, j *job, cache string) {
			if err := os.RemoveAll(cache); err != nil {
				t.Fatal(err)
			}
			write(t, cache, hostile)
		},
	}
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			j := newJob(t, "WRIT_RELEASE="+p.url, "WRIT_SHA256="+p.digest(sumsName))
			j.setup()
			attack(t, j, filepath.Join(j.home, ".cache/writ"))
			found, said := j.setup()
			if version := j.version(found); !strings.HasSuffix(version, "/bin/writ\nv1.2.3-rc.1") {
				t.Errorf("the job has %q: %s", version, said)
			}
			first, _, _ := strings.Cut(found, ":")
			programs, err := os.ReadDir(first)
			if err != nil || len(programs) != 1 || !strings.HasPrefix(first, filepath.Join(j.home, "tmp")+"/") {
				t.Errorf("the job has the programs %v of %s: %v", programs, first, err)
			}
			if strings.Contains(found, ".cache") {
				t.Errorf("the cache is on the PATH: %s", found)
			}
		})
	}
}

// Another job that shares the cache replaces new files with links to files of this job.
func TestCacheLinksAreNotFollowed(t *testing.T) {
	p := newPlace(t)
	j := newJob(t, "WRIT_RELEASE="+p.url, "WRIT_SHA256="+p.digest(sumsName))
	key := filepath.Join(j.home, "key")
	if err := os.WriteFile(key, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	j.program("mktemp", `new=$(/usr/bin/mktemp "$@") || exit; case $new in */.cache/*) rm -f "$new"; ln -s `+key+` "$new";; esac; echo "$new"`)
	if found, said := j.setup(); !strings.HasSuffix(j.version(found), "v1.2.3-rc.1") {
		t.Error(said)
	}
	text, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(key); err != nil || string(text) != "secret" || info.Mode().Perm() != 0o600 {
		t.Errorf("the key has %d bytes and the mode %v, %v", len(text), info.Mode(), err)
	}
}

// A setup that fails removes only its own files.
func TestSetupKeepsFilesOfItsDirectory(t *testing.T) {
	p := newPlace(t)
	for name, env := range map[string][]string{
		"a wrong digest":    {"WRIT_SHA256=" + strings.Repeat("0", 64)},
		"an unreadable URL": {"WRIT_RELEASE=" + p.url + "/half", "WRIT_SHA256=" + p.digest(sumsName)},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t, "WRIT_RELEASE="+p.url)
			j.program("curl", `exec `+testenv.Need(t, "curl")+` --retry 0 "$@"`)
			tools := filepath.Join(j.home, "tools")
			write(t, filepath.Join(tools, "precious"), "")
			c, _, said := j.command(env...)
			c.Args = append(c.Args, tools)
			_ = c.Run() // fails
			left, err := os.ReadDir(tools)
			if err != nil || len(left) != 1 {
				t.Errorf("the directory has %v, %v: %s", left, err, said)
			}
		})
	}
}

func TestSetupPrintsNoPassword(t *testing.T) {
	p := newPlace(t)
	host := strings.TrimPrefix(p.url, "http://")
	for _, release := range []string{
		"http://ci:s3cret@" + host + "/none/writ_0.tar.gz?signature=s3cret", "http://ci:s3cret@" + host, "http://ci:x/s3cret@" + host + "/none/none", "ftp://ci:s3cret@" + host,
		"http://ci:x?s3cret@" + host,
	} {
		j := newJob(t, "WRIT_RELEASE="+release, "WRIT_SHA256="+strings.Repeat("0", 64))
		if said := j.refused(); strings.Contains(said, "s3cret") {
			t.Errorf("%s: it prints the password: %s", release, said)
		}
	}
}

// An endless response exhausts neither the disk nor the time of a job.
func TestEndlessDownloadIsRefused(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for piece := make([]byte, 1<<20); ; {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	script, err := os.ReadFile("../ci/writ-setup.sh")
	if err != nil {
		t.Fatal(err)
	}
	small := bytes.Replace(script, []byte("limit=268435456"), []byte("limit=1048576"), 1)
	if bytes.Equal(small, script) {
		t.Fatal("the script has another limit")
	}
	j := newJob(t, "WRIT_SHA256="+strings.Repeat("0", 64))
	name := filepath.Join(j.home, "setup.sh")
	write(t, name, string(small))
	for release, want := range map[string]string{server.URL: "cannot download", "/dev/zero": "cannot read"} {
		c, out, said := j.command("WRIT_RELEASE=" + release + "/writ.tar.gz")
		if release == "/dev/zero" {
			c, out, said = j.command("WRIT_RELEASE=" + filepath.Join(j.home, "zero.tar.gz"))
			if err := os.Symlink("/dev/zero", filepath.Join(j.home, "zero.tar.gz")); err != nil {
				t.Fatal(err)
			}
		}
		c.Args[len(c.Args)-1] = name
		if err := c.Run(); err == nil || out.Len() > 0 || !strings.Contains(said.String(), want) {
			t.Errorf("%s: %v, %s", release, err, said)
		}
	}
}

// write writes a program and creates its directory.
func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestJobInstallsFromFileShare(t *testing.T) {
	p := newPlace(t)
	for _, tt := range []struct{ release, digest string }{{p.dir, p.digest(sumsName)}, {p.dir + "/" + archiveHere, p.digest(archiveHere)}} {
		j := newJob(t, "WRIT_RELEASE="+tt.release, "WRIT_SHA256="+tt.digest)
		j.program("curl", "exit 99")
		if found, said := j.setup(); !strings.HasSuffix(j.version(found), "v1.2.3-rc.1") {
			t.Error(said)
		}
	}
}

func TestJobInstallsNothingElse(t *testing.T) {
	p := newPlace(t)
	sums := p.digest(sumsName)
	s := fixture(t, "#!/bin/sh\necho v6.6.6 # ")
	if err := s.archive(s.built.programs[0], filepath.Join(p.dir, "writ_other.tar.gz")); err != nil {
		t.Fatal(err)
	}
	if err := s.archive(s.built.programs[1], filepath.Join(p.dir, "writ_renamed.tar.gz")); err != nil {
		t.Fatal(err)
	}
	good, other := p.digest(archiveHere), p.digest("writ_1.2.3-rc.1_linux_arm64.tar.gz")
	for _, tt := range []struct{ name, release, digest, says, env string }{
		{"no release", "", sums, "WRIT_RELEASE is not set", ""},
		{"no digest", p.url, "", "WRIT_SHA256 is not set", ""},
		{"a word", p.url, "v1.2.3", "WRIT_SHA256 is not a digest: v1.2.3", ""},
		{"a short digest", p.url, sums[:40], "WRIT_SHA256 has 40 digits, not 64", ""},
		{"a relative path", "srv/writ", sums, "WRIT_RELEASE is neither a URL nor an absolute path: srv/writ", ""},
		{"a missing path", p.dir + "/none", sums, "cannot read " + p.dir + "/none/SHA256SUMS", ""},
		{"a share with other files", p.dir, good, "SHA256SUMS has the sha256 " + sums, ""},
		{"a file URL", "file://" + p.dir, sums, "is neither a URL nor an absolute path", ""},
		{"a space", p.url + "/a b", sums, "has a space", ""},
		{"nothing there", p.url + "/none.tar.gz", sums, "cannot download " + p.url + "/none.tar.gz", ""},
		{"another release", p.url, good, "SHA256SUMS has the sha256 " + sums + ", not " + good, ""},
		{"half of it", p.url + "/half/" + archiveHere, good, "cannot download", ""},
		{"a password", p.url + "/private/" + archiveHere, good, "curl takes passwords from ~/.netrc", ""},
		{"for others", p.url + "/writ_1.2.3-rc.1_linux_arm64.tar.gz", other, "is for another system than this one, linux_amd64", ""},
		{"for others, renamed", p.url + "/writ_renamed.tar.gz", p.digest("writ_renamed.tar.gz"), "has no writ for linux_amd64", ""},
		{"another program", p.url + "/writ_other.tar.gz", p.digest("writ_other.tar.gz"), "is not v1.2.3-rc.1: v6.6.6", ""},
		{"another system", p.url, sums, "no release of writ supports FreeBSD", "FreeBSD x86_64"},
		{"another processor", p.url, sums, "no release of writ supports riscv64", "Linux riscv64"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := newJob(t, "WRIT_RELEASE="+tt.release, "WRIT_SHA256="+tt.digest)
			if system, processor, given := strings.Cut(tt.env, " "); given {
				j.program("uname", `[ "$1" = -s ] && echo `+system+` || echo `+processor)
			}
			said := j.refused()
			if !strings.Contains(said, tt.says) || !strings.Contains(said, "\n  hint: ") {
				t.Errorf("output = %q, want %q", said, tt.says)
			}
			if kept := j.kept(); slices.ContainsFunc(kept, func(n string) bool { return n != sumsName && !strings.HasSuffix(n, ".tar.gz") }) {
				t.Errorf("it leaves %q", kept)
			}
		})
	}
}

func TestATamperedArchiveIsRefused(t *testing.T) {
	p := newPlace(t)
	j := newJob(t, "WRIT_RELEASE="+p.url, "WRIT_SHA256="+p.digest(sumsName))
	honest := p.digest(archiveHere)
	// The attacker controls the server and serves another program in the same format.
	s := fixture(t, "#!/bin/sh\necho v1.2.3-rc.1; echo stolen # ")
	s.out = p.dir
	if err := s.archive(s.built.programs[0], filepath.Join(p.dir, archiveHere)); err != nil {
		t.Fatal(err)
	}
	if said := j.refused(); !strings.Contains(said, archiveHere+" has the sha256 "+p.digest(archiveHere)+", not "+honest+": nothing is installed") {
		t.Error(said)
	}
	if kept := j.kept(); !slices.Equal(kept, []string{sumsName}) {
		t.Errorf("it leaves %q", kept)
	}
	// The checksums match that program.
	if err := os.Remove(filepath.Join(p.dir, sumsName)); err != nil {
		t.Fatal(err)
	}
	if err := s.sums(); err != nil {
		t.Fatal(err)
	}
	stranger := newJob(t, j.env[2:]...)
	if said := stranger.refused(); !strings.Contains(said, sumsName+" has the sha256 "+p.digest(sumsName)) {
		t.Error(said)
	}
	if kept := stranger.kept(); len(kept) > 0 {
		t.Errorf("it leaves %q", kept)
	}
}

func TestAReleaseHasOneArchiveForEachSystem(t *testing.T) {
	p := newPlace(t)
	for _, tt := range []struct{ sums, says string }{
		{strings.Repeat("a", 64) + "  writ_1.2.3_linux_arm64.tar.gz\n", "no archive for linux_amd64\n  hint: its SHA256SUMS names: writ_1.2.3_linux_arm64.tar.gz"},
		{strings.Repeat("a", 64) + "  writ_1.2.3_linux_amd64.tar.gz\n" + strings.Repeat("b", 64) + "  writ_1.2.4_linux_amd64.tar.gz\n", "several archives for linux_amd64"},
		{strings.Repeat("a", 64) + "  ../writ_1.2.3_linux_amd64.tar.gz\n", "no archive for linux_amd64"},
	} {
		if err := os.WriteFile(filepath.Join(p.dir, sumsName), []byte(tt.sums), 0o644); err != nil {
			t.Fatal(err)
		}
		if said := newJob(t, "WRIT_RELEASE="+p.url, "WRIT_SHA256="+p.digest(sumsName)).refused(); !strings.Contains(said, tt.says) {
			t.Errorf("output = %q, want %q", said, tt.says)
		}
	}
}

func TestCancelledJobLeavesNothing(t *testing.T) {
	begun := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("the beginning")) // checked below
		_ = http.NewResponseController(w).Flush()
		close(begun)
		<-r.Context().Done()
	}))
	defer server.Close()
	j := newJob(t, "WRIT_RELEASE="+server.URL, "WRIT_SHA256="+strings.Repeat("a", 64))
	c, _, said := j.command()
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	<-begun
	if err := syscall.Kill(-c.Process.Pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err == nil {
		t.Error("it succeeds")
	}
	if kept := j.kept(); len(kept) > 0 {
		t.Errorf("it leaves %q: %s", kept, said)
	}
}
