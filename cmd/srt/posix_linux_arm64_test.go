package main

// legacyCreat is zero where creat(2) has no call of its own.
const legacyCreat = 0
