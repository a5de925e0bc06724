package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	srt "github.com/srt-sandbox/srt"
	"github.com/srt-sandbox/srt/config"
)

// embed is the script command "embed FILE SETTINGS PROGRAM ARGUMENT...": a program
// that lets others start a command in its sandbox. FILE gets the argv, one word a
// line.
func embed() {
	if err := embedding(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Println("embed:", err)
		os.Exit(1)
	}
}

func embedding(file, settings, program string, args []string) error {
	cfg, _, err := config.Load(settings)
	if err != nil {
		return err
	}
	helper, err := filepath.Abs(os.Getenv("HELPER"))
	if err != nil {
		return err
	}
	sb, err := srt.New(context.Background(), cfg, srt.WithHelper(helper))
	if err != nil {
		return err
	}
	defer sb.Close()
	cmd := sb.Command(context.Background(), program, args...)
	argv, err := cmd.Argv()
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", []byte(strings.Join(argv, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	if err := os.Rename(file+".new", file); err != nil {
		return err
	}
	fmt.Println("embed: ended:", cmd.Wait())
	for _, v := range cmd.Violations() {
		fmt.Println("embed:", v.Line)
	}
	return nil
}
