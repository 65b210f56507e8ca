package netdev

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"writ"
	"writ/sal"
	"writ/sal/saltest"
)

// Records take the place of networks: only their number matters.
func TestNetworksOfAProjectAreBounded(t *testing.T) {
	x := newFixture(t, subnetA)
	record := func(project writ.ProjectID, name string, index int) {
		r := &sal.Record[network]{Resource: saltest.Resource(writ.KindNetwork, name), UID: saltest.RefTo(writ.KindNetwork, name).UID}
		r.Own.Phase, r.Own.Index = ready, uint16(index)
		if project != "" {
			r.Resource.Project = project
		}
		text, err := json.Marshal(r)
		if err == nil { // without syncing each
			dir := recordsOf(x.Driver).networks.Dir
			err = errors.Join(sal.MakeDir(dir), os.WriteFile(filepath.Join(dir, r.Resource.HostName()+".json"), text, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range maxNetworks {
		record("other", fmt.Sprint("n", i), i)
	}
	x.must("network.create", "first", nil)
	for i := range maxNetworks - 1 {
		record("", fmt.Sprint("n", i), maxNetworks+i)
	}
	if _, err := x.do("network.create", "more", nil); writ.CodeOf(err) != writ.CodeQuotaExceeded {
		t.Errorf("one network too many: %v", err)
	}
	x.must("network.create", "first", nil)
	x.must("network.delete", "first", nil)
	x.must("network.create", "more", nil)
}
