import torch
import torch.profiler
from torch import profiler
from torch.profiler import ProfilerActivity, profile, record_function, tensorboard_trace_handler

activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
with profile(activities=activities, on_trace_ready=tensorboard_trace_handler("log")) as p:
    with record_function("step"):
        pass
    p.step()
print(p.key_averages().table(sort_by="cuda_time_total"))
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA], schedule=profiler.schedule(wait=1)) as q:
    torch.cuda.nvtx.range_push("forward")
    torch.cuda.nvtx.range_pop()
with torch.autograd.profiler.profile(use_cuda=True):
    pass
