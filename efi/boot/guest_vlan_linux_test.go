package boot_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// The VLAN of the guest: its id, the address of its DHCP server and the address of the card.
const (
	vlanID     = 7
	vlanServer = "192.0.2.1"
	vlanCard   = "192.0.2.7/24"
)

// Offsets in a tagged frame. The tag follows the two addresses. The IP and UDP headers have no options.
const (
	tagAt   = 12
	ipAt    = tagAt + 6
	udpAt   = ipAt + 20
	dhcpAt  = udpAt + 8
	tagKind = 0x8100
)

// serveVLAN connects a card of the guest to a switch with one VLAN and a DHCP server, which answers once may returns
// true. It returns the address for QEMU. An untagged frame, or one of another VLAN, fails the test.
func serveVLAN(t *testing.T, may func() bool) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over, ended := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { l.Close(); close(over); <-ended })
	go func() {
		defer close(ended)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for {
			frame, err := readFrame(conn)
			if err != nil { // the guest has exited
				return
			}
			if binary.BigEndian.Uint16(frame[tagAt:]) != tagKind || binary.BigEndian.Uint16(frame[tagAt+2:])&0xfff != vlanID {
				t.Errorf("the card sends a frame that is not of its VLAN: %x", frame)
				continue
			}
			if answer := answerVLAN(frame); answer != nil {
				for !may() {
					select {
					case <-time.After(10 * time.Millisecond):
					case <-over:
						return
					}
				}
				_, _ = conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(answer))), answer...))
			}
		}
	}()
	return l.Addr().String()
}

// readFrame reads a frame in QEMU's format, with its length first.
func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(r, frame); err != nil {
		return nil, err
	}
	if len(frame) < ipAt {
		return nil, errors.New("the frame is too short for a tag")
	}
	return frame, nil
}

// answerVLAN returns the tagged reply to a DHCP request, nil for other frames.
func answerVLAN(frame []byte) []byte {
	if len(frame) < dhcpAt || binary.BigEndian.Uint16(frame[tagAt+4:]) != 0x0800 || binary.BigEndian.Uint16(frame[udpAt+2:]) != dhcpv4.ServerPort {
		return nil
	}
	question, err := dhcpv4.FromBytes(frame[dhcpAt:])
	if err != nil {
		return nil
	}
	kind, server, card := dhcpv4.MessageTypeOffer, net.ParseIP(vlanServer), netip.MustParsePrefix(vlanCard)
	if question.MessageType() == dhcpv4.MessageTypeRequest {
		kind = dhcpv4.MessageTypeAck
	}
	reply, err := dhcpv4.NewReplyFromRequest(question, dhcpv4.WithMessageType(kind), dhcpv4.WithYourIP(card.Addr().AsSlice()), dhcpv4.WithLeaseTime(3600),
		dhcpv4.WithNetmask(net.CIDRMask(card.Bits(), 32)), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(server)))
	if err != nil {
		return nil
	}
	text := reply.ToBytes()
	from := []byte{2, 0, 0, 0, 0, 1}
	ip := slices.Concat([]byte{0x45, 0}, binary.BigEndian.AppendUint16(nil, uint16(dhcpAt-ipAt+len(text))), []byte{0, 0, 0, 0, 64, 17, 0, 0}, server.To4(), net.IPv4bcast.To4())
	binary.BigEndian.PutUint16(ip[10:], checksum(ip))
	udp := binary.BigEndian.AppendUint16([]byte{0, dhcpv4.ServerPort, 0, dhcpv4.ClientPort}, uint16(dhcpAt-udpAt+len(text)))
	return slices.Concat(frame[6:12], from, frame[tagAt:ipAt], ip, udp, []byte{0, 0}, text)
}

// checksum returns the checksum of an IP header.
func checksum(header []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(header); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(header[i:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
