//go:build !linux

package srt

import "net"

func listenForHelpers() (*net.UnixListener, string, error) { return nil, "", ErrUnsupportedPlatform }

func callHost(string) (*net.UnixConn, string, error) { return nil, "", ErrUnsupportedPlatform }

type peer struct{}

func openPeer(*net.UnixConn) (*peer, error) { return nil, ErrUnsupportedPlatform }

func (*peer) kill()  {}
func (*peer) close() {}
