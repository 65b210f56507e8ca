package image

import "writ/sal/needs"

// roomForImages is what a host should have free for images, in bytes: one of a distribution has a few hundred MiB.
const roomForImages = 2 << 30

// Needs are what images need of a host.
func (d *Driver) Needs() []needs.Need {
	return []needs.Need{
		{Name: "room on the disk", Use: "images soon fail with DISK_FULL", Fix: "free some, or give the runner a --data on a bigger disk", Look: needs.Room(d.Dir, roomForImages)},
		{Name: "authorities", Use: "no image is fetched over https", Fix: "apt-get install -y ca-certificates", Look: needs.Authorities},
		{Name: "the program qemu-img", Use: "images of format qcow2 are refused", Fix: "apt-get install -y qemu-utils", Look: needs.Program("qemu-img", "", "--version")},
	}
}
