package main

import (
	"errors"
	"os"
	"syscall"

	"github.com/srt-sandbox/srt/config"
)

func checkWritable(fd int, _ string) error {
	_, err := syscall.GetFileType(syscall.Handle(fd))
	return err
}

func claimDescriptor(int) (*os.File, error) {
	return nil, errors.New("descriptors cannot be passed on this system; name a file")
}

func openLogFile(path, _ string, _ *config.Config) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
}
