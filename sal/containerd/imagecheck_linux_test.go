package containerd

import (
	"os"
	"strings"
	"testing"

	"writ"
	"writ/internal/test/testenv"
	"writ/sal"
)

// Promise: Networks and containers: A container can use the health check of its image, with the times of the script.
// How: The node stores the command of the image in the record of the container. A reverted replacement has its own again.
// Also: sal/containerd/runtimespec.TestHealthCommandOfImage.
func TestHealthCheckOfTheImageIsUsed(t *testing.T) {
	t.Parallel()
	b := newFixture(t, "")
	images := shelf{}
	b.driver.Images = images
	for name, line := range map[string]string{"good": "test -e /www/ok", "bad": "echo never; false", "none": ""} {
		config := map[string]any{}
		if line != "" {
			config["Healthcheck"] = map[string]any{"Test": []string{"CMD-SHELL", line}, "Interval": int64(1e15)}
		}
		archive := testenv.BusyboxThatSays(t, config)
		images[name] = sal.Image{Path: archive.Path, Format: "oci", SHA256: archive.SHA256, Bytes: archive.Bytes}
	}
	args := func(image string, check map[string]any) map[string]any {
		all := checked(webServer, check)
		all["image"] = image
		return all
	}
	ofImage := slow(map[string]any{"image": true, "retries": int64(1)})
	if _, err := b.do("container.create", "web", args("none", ofImage)); writ.CodeOf(err) != writ.CodeArgumentsInvalid || !strings.Contains(err.Error(), "no HEALTHCHECK") {
		t.Errorf("an image without a check: %v", err)
	}
	b.unhealthy("container.create", "web", args("good", ofImage))
	b.write("ok", "fine")
	if v := b.must("container.create", "web", args("good", ofImage)); v["health"] != "healthy" {
		t.Errorf("it is %v", v["health"])
	}

	if e := b.unhealthy("container.create", "web", args("bad", ofImage)); !strings.Contains(e.Message, "never") {
		t.Errorf("a worse image: %v", e)
	}
	if _, err := b.do("container.create", "web", args("none", ofImage)); writ.CodeOf(err) != writ.CodeArgumentsInvalid {
		t.Errorf("a replacement without a check: %v", err)
	}
	b.reopen()
	b.driver.Images = images
	b.runs()
	b.drift("web")
	if o, err := b.do("container.create", "web", args("good", ofImage)); err != nil || o.Change != writ.ChangeUnchanged {
		t.Errorf("after the failed replacements: %s, %v", o.Change, err)
	}

	b.must("container.stop", "web", map[string]any{"grace_seconds": int64(0)})
	if v := b.must("container.start", "web", nil); v["health"] != "healthy" {
		t.Errorf("started again, it is %v", v["health"])
	}
	b.sh("web", "echo kept >/mark")
	for _, check := range []map[string]any{page("ok"), ofImage} {
		if o, err := b.do("container.create", "web", args("good", check)); err != nil || o.Change != writ.ChangeUpdated || o.Values["health"] != "healthy" {
			t.Errorf("%v: %s, %v, %v", check, o.Change, o.Values["health"], err)
		}
	}
	b.sh("web", "cat /mark")
	if err := os.Remove(b.www("ok")); err != nil {
		t.Fatal(err)
	}
	b.drift("web")
	b.eventually("it is unhealthy", func() bool { return b.handle("web")["health"] == "unhealthy" })
	if got := b.drift("web"); !strings.Contains(got, "the command ended with exit code 1") {
		t.Errorf("the drift is %q", got)
	}
}
