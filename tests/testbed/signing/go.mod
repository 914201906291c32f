module signer

go 1.24
