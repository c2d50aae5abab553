import os,socket,sys
if sys.version_info<(3,8): sys.exit("this is Python %d.%d, and functions need 3.8 or later"%sys.version_info[:2])
connection=socket.socket(fileno=os.dup(0))
os.dup2(os.open(os.devnull,os.O_RDONLY),0)
def receive(n):
    b=bytearray()
    while len(b)<n:
        p=connection.recv(n-len(b))
        if not p: raise EOFError
        b+=p
    return bytes(b)
exec(compile(receive(int.from_bytes(receive(4),"little")),"<hq runner>","exec"))
