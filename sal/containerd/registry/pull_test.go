package registry

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/pkg/archive"
	"github.com/containerd/containerd/v2/plugins/content/local"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"writ"
	"writ/internal/diskspace"
	"writ/internal/imageref"
	"writ/internal/outbound"
	"writ/internal/test/ociregistry"
	"writ/internal/test/testenv"
)

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// layerOf returns the tar of a layer with one file.
func layerOf(t testing.TB, text string) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: "file", Mode: 0o644, Size: int64(len(text))})
	_, werr := io.WriteString(w, text)
	if err := errors.Join(err, werr, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipped(t testing.TB, text []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(text)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstded(t testing.TB, text []byte) []byte {
	w := must[*zstd.Encoder](t)(zstd.NewWriter(nil))
	return w.EncodeAll(text, nil)
}

// image returns an image for a platform with these layers, as packed and unpacked bytes.
func image(t testing.TB, architecture string, layers ...[2][]byte) v1.Image {
	i := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	i = mutate.ConfigMediaType(i, types.OCIConfigJSON)
	for _, l := range layers {
		mediaType := types.OCILayer
		if bytes.HasPrefix(l[0], []byte{0x28, 0xb5}) {
			mediaType = types.OCILayerZStd
		}
		i = must[v1.Image](t)(mutate.Append(i, mutate.Addendum{Layer: known{static.NewLayer(l[0], mediaType), l[1]}, MediaType: mediaType}))
	}
	config := must[*v1.ConfigFile](t)(i.ConfigFile())
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", architecture
	return must[v1.Image](t)(mutate.ConfigFile(i, config))
}

// known is a layer whose diff_id is that of any bytes.
type known struct {
	v1.Layer
	unpacked []byte
}

func (k known) DiffID() (v1.Hash, error) {
	h, _, err := v1.SHA256(bytes.NewReader(k.unpacked))
	return h, err
}

func plain(text []byte) [2][]byte { return [2][]byte{text, text} }

// puller pulls from a registry into a store on disk.
type puller struct {
	testing.TB
	*Source
	store content.Store
	login Login

	most, perFile int64
}

func newPuller(t testing.TB, s *ociregistry.Server, registries ...string) *puller {
	policy := must[Policy](t)(ParsePolicy(append(registries, s.Host)))
	return &puller{
		t, &Source{Policy: policy, Authorities: s.Authorities}, must[content.Store](t)(local.NewStore(t.TempDir())), Login{}, 1 << 36, 0,
	}
}

func (p *puller) pull(reference string) (Pulled, error) {
	p.Helper()
	r, err := imageref.Parse(reference)
	if err != nil {
		p.Fatal(err)
	}
	return p.Pull(p.Context(), Request{Reference: r, Login: p.login, Store: p.store, Ingest: "project@", MaxBytes: p.most, PerFile: p.perFile})
}

// complete checks that the store has each blob of an image, with its digest.
func (p *puller) complete(i Pulled) {
	p.Helper()
	read := func(d ocispec.Descriptor) []byte {
		text, err := content.ReadBlob(p.Context(), p.store, d)
		if err != nil || digest.FromBytes(text) != d.Digest {
			p.Fatalf("%s: %v", d.Digest, err)
		}
		return text
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(read(i.Manifest), &m); err != nil {
		p.Fatal(err)
	}
	for _, d := range append(m.Layers, m.Config) {
		read(d)
	}
}

func TestPullTakesImageOfThisMachine(t *testing.T) {
	s := ociregistry.Start(t)
	small, big := layerOf(t, "small"), layerOf(t, strings.Repeat("big", 1<<20))
	own := image(t, runtime.GOARCH, plain(small), [2][]byte{gzipped(t, big), big}, [2][]byte{zstded(t, big), big})
	attestation := image(t, "unknown", plain(small))
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex),
		mutate.IndexAddendum{Add: attestation, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "unknown", Architecture: "unknown"}}},
		mutate.IndexAddendum{Add: image(t, "s390x", plain(small)), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "s390x"}}},
		mutate.IndexAddendum{Add: own, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}}},
	)
	p := newPuller(t, s)
	for what, of := range map[string]string{"index": s.PushIndex(t, "team/web:1", index), "image": s.Push(t, "team/web:2", own)} {
		got, err := p.pull(s.Host + "/team/web:1@" + of)
		if want := must[v1.Hash](t)(own.Digest()); err != nil || got.Manifest.Digest.String() != want.String() {
			t.Fatalf("%s: %v, %v, want %s", what, got, err, want)
		}
		p.complete(got)
		if got.Bytes < int64(2*len(big)) {
			t.Errorf("%s: it counts %d bytes", what, got.Bytes)
		}
	}
}

// Promise: Volumes and images: A registry cannot make a node accept other content than the signed digest, reach other
// addresses, or fill the disk.
// How: each blob is compared with its digest and each layer with its diff_id; sizes are limited; connections are guarded.
// Also: TestStoredBlobsArePulledAgain, TestRegistryCannotLeadInside, TestProtocolSwitchEndsPull,
// TestLongTokenIsRefused, TestEncodedAnswersAreRefused, TestRepeatedLayerCountsEachTime,
// TestUnpackedSizeIsCounted, TestImageWithManyValuesIsRefused.
func TestHostileRegistryIsRefused(t *testing.T) {
	s := ociregistry.Start(t)
	layer := layerOf(t, strings.Repeat("text", 1000))
	packed := gzipped(t, layer)
	good := s.Push(t, "good:1", image(t, runtime.GOARCH, [2][]byte{packed, layer}))
	bomb := make([]byte, 8<<20)
	blob := "/blobs/" + digest.FromBytes(packed).String()
	answer := func(suffix string, how func(w http.ResponseWriter)) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, suffix) {
				return false
			}
			how(w)
			return true
		}
	}
	with := func(text []byte) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { _, _ = w.Write(text) }
	}
	longHeader := func(w http.ResponseWriter) { w.Header().Set("A", strings.Repeat("a", 1<<20)); _, _ = w.Write(packed) }
	status := func(code int) func(http.ResponseWriter) { return func(w http.ResponseWriter) { w.WriteHeader(code) } }
	everywhere := func(how func(http.ResponseWriter)) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool { how(w); return true }
	}
	for name, tt := range map[string]struct {
		image  string
		before func(http.ResponseWriter, *http.Request) bool
		want   writ.Code
	}{
		"as it is":                {good, nil, ""},
		"another layer":           {good, answer(blob, with(append(bytes.Clone(packed[:len(packed)-1]), packed[len(packed)-1]^1))), writ.CodeChecksumMismatch},
		"a longer layer":          {good, answer(blob, with(append(bytes.Clone(packed), 'x'))), writ.CodeChecksumMismatch},
		"another manifest":        {good, answer("/manifests/"+good, with([]byte(`{"schemaVersion":2,"layers":[]}`))), writ.CodeChecksumMismatch},
		"no blob":                 {good, answer(blob, status(http.StatusNotFound)), writ.CodeImageUnknown},
		"no image":                {"sha256:" + strings.Repeat("ab", 32), nil, writ.CodeImageUnknown},
		"no access":               {good, everywhere(status(http.StatusForbidden)), writ.CodeRegistryDenied},
		"a fault":                 {good, everywhere(status(http.StatusServiceUnavailable)), writ.CodeRegistryBusy},
		"another diff_id":         {s.Push(t, "good:2", image(t, runtime.GOARCH, [2][]byte{packed, []byte("the layer of a victim")})), nil, writ.CodeArgumentsInvalid},
		"another platform":        {s.Push(t, "good:3", image(t, "s390x", plain(layer))), nil, writ.CodeImagePlatform},
		"too large when unpacked": {s.Push(t, "good:4", image(t, runtime.GOARCH, [2][]byte{gzipped(t, bomb), bomb})), nil, writ.CodeQuotaExceeded},
		"too large":               {s.Push(t, "good:5", image(t, runtime.GOARCH, plain(bomb))), nil, writ.CodeQuotaExceeded},
		"a long header":           {good, answer(blob, longHeader), writ.CodeUnreachable},
		"damaged layer":           {s.Push(t, "good:6", image(t, runtime.GOARCH, [2][]byte{packed[:len(packed)/2], layer})), nil, writ.CodeArgumentsInvalid},
	} {
		s.Before(tt.before)
		p := newPuller(t, s)
		p.most = 4 << 20
		if _, err := p.pull(s.Host + "/good@" + tt.image); writ.CodeOf(err) != tt.want {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
		left := must[[]content.Status](t)(p.store.ListStatuses(t.Context()))
		if len(left) > 0 {
			t.Errorf("%s: %d unfinished blobs are left", name, len(left))
		}
		s.Before(nil)
	}
}

// A registry knows digests of other projects' blobs at most, so it must send the content.
func TestStoredBlobsArePulledAgain(t *testing.T) {
	s := ociregistry.Start(t)
	layer := layerOf(t, "secret")
	of := s.Push(t, "victim:1", image(t, runtime.GOARCH, plain(layer)))
	p := newPuller(t, s)
	if _, err := p.pull(s.Host + "/victim@" + of); err != nil {
		t.Fatal(err)
	}
	s.Seen()
	if _, err := p.pull(s.Host + "/victim@" + of); err != nil {
		t.Fatal(err)
	}
	blob := "GET /v2/victim/blobs/" + digest.FromBytes(layer).String()
	if !slices.Contains(s.Seen(), blob) {
		t.Error("a layer that the store has was not asked for")
	}
	s.Before(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method+" "+r.URL.Path != blob {
			return false
		}
		w.WriteHeader(http.StatusNotFound)
		return true
	})
	if _, err := p.pull(s.Host + "/victim@" + of); writ.CodeOf(err) != writ.CodeImageUnknown {
		t.Errorf("without the layer at the registry: %v", err)
	}
}

// cutAfter cuts the connection after some bytes of the answer.
type cutAfter struct {
	http.ResponseWriter
	left int
}

func (c *cutAfter) Write(text []byte) (int, error) {
	if c.left -= len(text); c.left < 0 {
		panic(http.ErrAbortHandler)
	}
	return c.ResponseWriter.Write(text)
}

func TestBrokenDownloadIsResumed(t *testing.T) {
	s := ociregistry.Start(t)
	layer := layerOf(t, strings.Repeat("text", 1<<20))
	of := s.Push(t, "web:1", image(t, runtime.GOARCH, plain(layer)))
	blob := "/blobs/" + digest.FromBytes(layer).String()
	cuts, limits := 0, 0
	s.Before(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.Method == http.MethodHead && limits < 2:
			limits++
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, blob):
			if cuts++; cuts > 2 {
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(layer))
				return true
			}
			cut := &cutAfter{w, 1 << 20}
			http.ServeContent(cut, r, "", time.Time{}, bytes.NewReader(layer))
		}
		return false
	})
	p := newPuller(t, s)
	got, err := p.pull(s.Host + "/web@" + of)
	if err != nil || cuts != 3 || limits != 2 {
		t.Fatalf("after %d cuts and %d limits: %v", cuts, limits, err)
	}
	p.complete(got)
}

// A registry chooses the addresses of redirects, of tokens and of layers. None of them leads into the operator's network.
func TestRegistryCannotLeadInside(t *testing.T) {
	asked := 0
	inside := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer inside.Close()
	s := ociregistry.Start(t)
	s.Authorities.AddCert(inside.Certificate())
	layer := layerOf(t, "text")
	elsewhere := known{static.NewLayer(layer, types.OCILayer), layer}
	foreign := must[v1.Image](t)(mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1),
		mutate.Addendum{Layer: elsewhere, URLs: []string{inside.URL + "/layer"}, MediaType: types.OCILayer}))
	config := must[*v1.ConfigFile](t)(foreign.ConfigFile()).DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	of := s.Push(t, "web:1", must[v1.Image](t)(mutate.ConfigFile(foreign, config)))
	p := newPuller(t, s)
	if _, err := p.pull(s.Host + "/web@" + of); err != nil {
		t.Errorf("with the address of a layer, which is ignored: %v", err)
	}
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request){
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, inside.URL+"/x", http.StatusFound) },
		"tokens": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+inside.URL+`/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		},
	} {
		s.Before(func(w http.ResponseWriter, r *http.Request) bool { answer(w, r); return true })
		p := newPuller(t, s)
		p.login = Login{"ci", "secret"}
		if _, err := p.pull(s.Host + "/web@" + of); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if asked > 0 {
		t.Errorf("the server inside was asked %d times", asked)
	}
}

// tokens answers as the server of tokens of a registry: it wants a password, and the registry wants a token.
func tokens(host, password string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/token" {
			if _, got, ok := r.BasicAuth(); !ok || got != password {
				w.WriteHeader(http.StatusUnauthorized)
				return true
			}
			_, _ = io.WriteString(w, `{"token":"abc"}`)
			return true
		}
		if r.Header.Get("Authorization") == "Bearer abc" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="https://`+host+`/token",service="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
}

func TestLoginIsForItsRegistryOnly(t *testing.T) {
	s := ociregistry.Start(t)
	of := s.Push(t, "web:1", image(t, runtime.GOARCH, plain(layerOf(t, "text"))))
	basic := func(w http.ResponseWriter, r *http.Request) bool {
		if _, got, _ := r.BasicAuth(); got == "right" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	for name, check := range map[string]func(http.ResponseWriter, *http.Request) bool{"basic": basic, "token": tokens(s.Host, "right")} {
		s.Before(check)
		for password, want := range map[string]writ.Code{"right": "", "wrong": writ.CodeRegistryLogin, "": writ.CodeRegistryDenied} {
			p := newPuller(t, s)
			p.login = Login{"ci", password}
			if password == "" {
				p.login = Login{}
			}
			if _, err := p.pull(s.Host + "/web@" + of); writ.CodeOf(err) != want {
				t.Errorf("%s with password %q: %v, want %s", name, password, err, want)
			}
		}
	}

	// A mirror asks for the password, and does not get it.
	mirror := ociregistry.Start(t)
	s.Before(nil)
	for _, kind := range []string{`Basic realm="x"`, `Bearer realm="https://` + mirror.Host + `/token",service="x"`} {
		var heard []string
		mirror.Before(func(w http.ResponseWriter, r *http.Request) bool {
			heard = append(heard, r.Header.Get("Authorization"))
			w.Header().Set("WWW-Authenticate", kind)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		})
		p := newPuller(t, s, s.Host+"=https://"+mirror.Host)
		p.Authorities = bothOf(s, mirror)
		p.login = Login{"ci", "right"}
		if _, err := p.pull(s.Host + "/web@" + of); err != nil {
			t.Errorf("%s of a mirror: %v", kind, err)
		}
		if len(heard) == 0 || strings.Join(heard, "") != "" {
			t.Errorf("%s: the mirror heard %q", kind, heard)
		}
	}
}

func bothOf(a, b *ociregistry.Server) *x509.CertPool {
	all := a.Authorities.Clone()
	all.AddCert(b.Certificate)
	return all
}

func TestUnreachableMirrorIsSkipped(t *testing.T) {
	s := ociregistry.Start(t)
	of := s.Push(t, "web:1", image(t, runtime.GOARCH, plain(layerOf(t, "text"))))
	away := httptest.NewUnstartedServer(nil)
	host := away.Listener.Addr().String()
	away.Close()
	p := newPuller(t, s, s.Host+"=https://"+host)
	if _, err := p.pull(s.Host + "/web@" + of); err != nil {
		t.Error(err)
	}
}

func TestOnlyPermittedRegistriesAreAsked(t *testing.T) {
	s := ociregistry.Start(t)
	p := newPuller(t, s)
	for _, values := range [][]string{nil, {"none"}, {"registry.example:5000"}} {
		p.Policy = must[Policy](t)(ParsePolicy(values))
		if _, err := p.pull(s.Host + "/web@sha256:" + strings.Repeat("ab", 32)); writ.CodeOf(err) != writ.CodeRegistryForbidden {
			t.Errorf("%q: %v", values, err)
		}
	}
	if seen := s.Seen(); len(seen) > 0 {
		t.Errorf("it was asked %q", seen)
	}
	for _, wrong := range []string{"", "docker.io/library", "https://docker.io", "docker", "ghcr.io=mirror.example", "ghcr.io=http://mirror.example", "ghcr.io=https://mirror.example/v2"} {
		if _, err := ParsePolicy([]string{wrong}); writ.CodeOf(err) != writ.CodeUsage {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

// A pull that does not end holds the locks of its container and its image, a slot of the node and space for images.
func TestProtocolSwitchEndsPull(t *testing.T) {
	s := ociregistry.StartOldHTTP(t)
	of := s.Push(t, "web:1", image(t, runtime.GOARCH, plain(layerOf(t, "text"))))
	for name, at := range map[string]func(r *http.Request) bool{
		"manifest": func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/manifests/") },
		"blob":     func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/blobs/") },
		"token":    func(r *http.Request) bool { return r.URL.Path == "/token" },
	} {
		t.Run(name, func(t *testing.T) {
			wantsToken := tokens(s.Host, "right")
			s.Before(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodGet && at(r) {
					ociregistry.SwitchProtocol(w)
					return true
				}
				return name == "token" && wantsToken(w, r)
			})
			p := newPuller(t, s)
			err := testenv.End(t, func() error { _, err := p.pull(s.Host + "/web@" + of); return err })
			if writ.CodeOf(err) != writ.CodeUnreachable || !strings.Contains(err.Error(), outbound.ErrSwitched.Error()) {
				t.Errorf("%v", err)
			}
		})
	}
}

// The limit also applies if the token is for a large blob.
func TestLongTokenIsRefused(t *testing.T) {
	s := ociregistry.Start(t)
	of := s.Push(t, "web:1", image(t, runtime.GOARCH, plain(layerOf(t, "text"))))
	for name, method := range map[string]string{"without a login": http.MethodGet, "with a login": http.MethodPost} {
		t.Run(name, func(t *testing.T) {
			const all = 64 << 20
			var sent atomic.Int64
			wantsToken := tokens(s.Host, "right")
			s.Before(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/token" || r.Method != method {
					return wantsToken(w, r)
				}
				_, _ = io.WriteString(w, `{"token":"`)
				for part := bytes.Repeat([]byte("a"), 64<<10); sent.Load() < all; {
					n, err := w.Write(part)
					if sent.Add(int64(n)); err != nil {
						return true
					}
				}
				_, _ = io.WriteString(w, `"}`)
				return true
			})
			p := newPuller(t, s)
			if method == http.MethodPost {
				p.login = Login{"ci", "right"}
			}
			_, err := p.pull(s.Host + "/web@" + of)
			if writ.CodeOf(err) != writ.CodeUnreachable || !strings.Contains(err.Error(), outbound.ErrLong.Error()) {
				t.Errorf("%v", err)
			}
			if n := sent.Load(); n >= all {
				t.Errorf("%d MiB of the token were read", n>>20)
			}
		})
	}
}

// A decoder may take much memory, and a server may name a thousand of them.
func TestEncodedAnswersAreRefused(t *testing.T) {
	s := ociregistry.Start(t)
	of := s.Push(t, "web:1", image(t, runtime.GOARCH, plain(layerOf(t, "text"))))
	for what, encodings := range map[string]string{"/manifests/": strings.Repeat("deflate,", 1000), "/blobs/": "zstd"} {
		s.Before(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, what) {
				w.Header().Set("Content-Encoding", encodings)
			}
			return false
		})
		p := newPuller(t, s)
		_, err := p.pull(s.Host + "/web@" + of)
		if writ.CodeOf(err) != writ.CodeUnreachable || !strings.Contains(err.Error(), outbound.ErrEncoded.Error()) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// containerd unpacks each occurrence of a layer.
func TestRepeatedLayerCountsEachTime(t *testing.T) {
	s := ociregistry.Start(t)
	const times = 5
	layer := layerOf(t, strings.Repeat("\x00", 1<<20))
	var layers [][2][]byte
	for range times {
		layers = append(layers, [2][]byte{gzipped(t, layer), layer})
	}
	of := s.Push(t, "web:1", image(t, runtime.GOARCH, layers...))
	p := newPuller(t, s)
	s.Seen()
	got, err := p.pull(s.Host + "/web@" + of)
	if want := int64(times * len(layer)); err != nil || got.Bytes < want {
		t.Errorf("it counts %d bytes, and needs %d: %v", got.Bytes, want, err)
	}
	blobs := slices.DeleteFunc(s.Seen(), func(q string) bool { return !strings.HasPrefix(q, "GET /v2/web/blobs/") })
	if len(blobs) != 2 { // the config and the layer
		t.Errorf("it was asked %q", blobs)
	}
	p.most = times/2*int64(len(layer)) + 1<<20
	if _, err := p.pull(s.Host + "/web@" + of); writ.CodeOf(err) != writ.CodeQuotaExceeded {
		t.Errorf("without enough space: %v", err)
	}
}

// entries returns the tar file of a layer. A name that ends with "/" is a directory, one with "->" a symbolic link, and
// other names are files of one byte.
func entries(t testing.TB, names ...string) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range names {
		h := tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: 1}
		if link, to, ok := strings.Cut(name, "->"); ok {
			h = tar.Header{Typeflag: tar.TypeSymlink, Name: link, Linkname: to}
		} else if strings.HasSuffix(name, "/") {
			h.Typeflag, h.Size = tar.TypeDir, 0
		}
		err := w.WriteHeader(&h)
		if h.Size > 0 {
			_, err = w.Write([]byte("x"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// onDisk returns the space and the number of the files below a directory.
func onDisk(t testing.TB, dir string) (bytes, files int64) {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			bytes, files = bytes+diskspace.Occupied(info), files+1
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes, files
}

// containerd writes each hole of a sparse file as zeros, unpacks plain layers too, and makes directories that a layer does
// not have.
func TestUnpackedSizeIsCounted(t *testing.T) {
	s := ociregistry.Start(t)
	const size = 16 << 20
	sparse, full := testenv.SparseLayer(size), layerOf(t, strings.Repeat("text", size/4))
	var dirs, small, parents, replaced, twice []string
	deep := strings.Repeat("d/", 15)
	for i := range 40 {
		n := strconv.Itoa(i)
		dirs, small, parents = append(dirs, n+"/"), append(small, n), append(parents, n+"/"+deep+"file")
		replaced = append(replaced, n+"/", "l->"+n, "l/"+deep+"file")
		twice = append(twice, n+"/", "m->"+n, "l->m", "k/l/"+deep+"file", ".wh.m")
	}
	for name, layer := range map[string][2][]byte{
		"sparse": plain(sparse), "packed sparse": {gzipped(t, sparse), sparse}, "plain": plain(full),
		"directories": plain(entries(t, dirs...)), "small files": plain(entries(t, small...)),
		"missing directories": plain(entries(t, parents...)), "replaced links": plain(entries(t, replaced...)),
		"links to links": plain(entries(t, append([]string{"k->."}, twice...)...)),
	} {
		of := s.Push(t, "web:1", image(t, runtime.GOARCH, layer))
		p := newPuller(t, s)
		got, err := p.pull(s.Host + "/web@" + of)
		root := t.TempDir()
		must[int64](t)(archive.Apply(t.Context(), root, bytes.NewReader(layer[1]), archive.WithNoSameOwner()))
		unpacked, files := onDisk(t, root)
		if want := unpacked + int64(len(layer[0])); err != nil || got.Bytes < want {
			t.Errorf("%s: it counts %d bytes, and needs %d: %v", name, got.Bytes, want, err)
		}
		p.perFile = 1 << 20
		if got, err = p.pull(s.Host + "/web@" + of); got.Bytes < files<<20 || err != nil {
			t.Errorf("%s: it counts %d files, and has %d: %v", name, got.Bytes>>20, files, err)
		}
		p.most, p.perFile = int64(len(layer[0]))+unpacked/2, 0
		if _, err := p.pull(s.Host + "/web@" + of); writ.CodeOf(err) != writ.CodeQuotaExceeded {
			t.Errorf("%s without enough space: %v", name, err)
		}
	}
}

// An index of 4 MiB may have a million entries.
func TestImageWithManyValuesIsRefused(t *testing.T) {
	s := ociregistry.Start(t)
	empty := strings.Repeat("{},", 1_000_000) + "{}"
	for mediaType, text := range map[string]string{
		ocispec.MediaTypeImageIndex:    `{"schemaVersion":2,"manifests":[` + empty + `]}`,
		ocispec.MediaTypeImageManifest: `{"schemaVersion":2,"layers":[` + empty + `]}`,
	} {
		s.Before(func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Type", mediaType)
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
			return true
		})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := newPuller(t, s).pull(s.Host + "/web@" + digest.FromString(text).String())
		runtime.ReadMemStats(&after)
		taken := (after.TotalAlloc - before.TotalAlloc) >> 20
		if writ.CodeOf(err) != writ.CodeArgumentsInvalid || !strings.Contains(err.Error(), "values") || taken > 64 {
			t.Errorf("%s: %v after %d MiB", mediaType, err, taken)
		}
	}
}

// Without a length, the client reads the whole manifest before it knows the size.
func TestManifestWithoutLengthIsLimited(t *testing.T) {
	s := ociregistry.Start(t)
	const most = 64 << 20
	var sent atomic.Int64
	s.Before(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
		w.WriteHeader(http.StatusOK)
		if r.Method == http.MethodHead {
			_ = http.NewResponseController(w).Flush() // no length
			return true
		}
		for part := make([]byte, 1<<20); sent.Load() < most; sent.Add(int64(len(part))) {
			if _, err := w.Write(part); err != nil {
				break
			}
		}
		return true
	})
	_, err := newPuller(t, s).pull(s.Host + "/web@sha256:" + strings.Repeat("ab", 32))
	if writ.CodeOf(err) != writ.CodeUnreachable || !strings.Contains(err.Error(), outbound.ErrLong.Error()) || sent.Load() >= most {
		t.Errorf("after %d MiB: %v", sent.Load()>>20, err)
	}
}
