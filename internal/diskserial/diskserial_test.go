package diskserial

import (
	"testing"
	"testing/fstest"
)

func TestSerialNumberIsFoundOnEveryBus(t *testing.T) {
	root := fstest.MapFS{}
	for name, text := range map[string]string{
		"vda/serial": "DATA-1\n", "nvme0n1/device/serial": "S64FNT0W100001      \n", "sda/device/vpd_pg80": "\x00\x80\x00\x14            WS20ABCD", "vdb/serial": "\n",
		"sdb/device/vpd_pg80": "\x00\x80\x00\x0cWD-1\x00\x00\x00\x00\x00\x00\x00\x00", "sdc/device/vpd_pg80": "\x00\x80\x00\x04    ",
	} {
		root["sys/block/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	for disk, want := range map[string]string{"vda": "DATA-1", "nvme0n1": "S64FNT0W100001", "sda": "WS20ABCD", "sdb": "WD-1", "sdc": "", "vdb": "", "vdc": ""} {
		if got := Of(root, "sys/block/"+disk); got != want {
			t.Errorf("%s has the serial number %q, want %q", disk, got, want)
		}
	}
}
