"""What a client of NVFlare does."""

import job
import nvflare.client as flare

flare.init()
number = int(flare.get_site_name().removeprefix("site-")) - 1
X, y = job.client(number)
net = job.Net()
while flare.is_running():
    given = flare.receive()
    net.load_state_dict(given.params)
    job.train(net, X, y, [given.current_round, number])
    flare.send(flare.FLModel(params=net.state_dict(), meta={"NUM_STEPS_CURRENT_ROUND": len(y)}))
